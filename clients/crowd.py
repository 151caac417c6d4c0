"""How many conversations one server holds at once, each of them answered in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from clients.beside import beside
from clients.clip import replay_clip
from clients.measure import ClipResult
from clients.recordings import Recording
from clients.summary import Spread, spread
from clients.tables import titled
from pipeline.ports import InputError

WATCHED_S = 0.5


@dataclass(frozen=True, slots=True)
class Level:
    """So many conversations at once, and how they were answered; ``share``: of the cores' time, at most."""

    sessions: int
    asked: int
    voice_to_voice: Spread | None
    problems: tuple[str, ...]
    share: float

    def holds(self, limit_ms: float) -> bool:
        """Whether everybody was answered, nineteen of twenty within the limit."""
        answers = self.voice_to_voice
        return answers is not None and answers.count == self.asked and answers.p95_ms <= limit_ms


async def find_limit(
    recordings: Sequence[Recording],
    url: str,
    share: Callable[[], float],
    *,
    most: int,
    turns: int,
    limit_ms: float,
) -> AsyncIterator[Level]:
    """One conversation more at a time, up to ``most`` or to the first level that does not hold."""
    for sessions in range(1, most + 1):
        level = await measure_level(recordings, url, share, sessions, turns)
        yield level
        if not level.holds(limit_ms):
            return


async def measure_level(
    recordings: Sequence[Recording], url: str, share: Callable[[], float], sessions: int, turns: int
) -> Level:
    """Let so many users ask ``turns`` questions each, one after the other and none in step with the others."""
    step_s = sum(recording.duration_s for recording in recordings) / len(recordings) / sessions
    users = [_user(recordings, url, number, turns, number * step_s) for number in range(sessions)]
    shares = [0.0]
    async with beside(_watch(share, shares)):
        results = [result for user in await asyncio.gather(*users) for result in user]
    latencies = [answer.voice_to_voice_ms for result in results if (answer := result.answer)]
    return Level(
        sessions=sessions,
        asked=len(results),
        voice_to_voice=spread([ms for ms in latencies if ms is not None]),
        problems=tuple(problem for result in results for problem in result.problems),
        share=max(shares),
    )


async def _user(
    recordings: Sequence[Recording], url: str, number: int, turns: int, begins_s: float
) -> list[ClipResult]:
    await asyncio.sleep(begins_s)
    return [await replay_clip(recordings[(number + turn) % len(recordings)], url) for turn in range(turns)]


async def _watch(share: Callable[[], float], seen: list[float]) -> None:
    while True:
        await asyncio.sleep(WATCHED_S)
        seen.append(share())


def render_levels(levels: Sequence[Level], limit_ms: float) -> Table:
    """A row for each number of conversations."""
    table = titled(
        "Conversations at once",
        f"p50, p95: ms from the last speech sample to the first audible one; the goal is {limit_ms:.0f}.\n"
        "cores: what the models took of the cores' time at most, in ten seconds.",
    )
    for column in ("sessions", "asked", "answered", "p50", "p95", "cores", "problems"):
        table.add_column(column, justify="right", no_wrap=True)
    for level in levels:
        answers = level.voice_to_voice
        figures = (
            (str(answers.count), f"{answers.p50_ms:.0f}", f"{answers.p95_ms:.0f}") if answers else ("0", "-", "-")
        )
        cells = (str(level.sessions), str(level.asked), *figures, f"{level.share:.0%}", str(len(level.problems)))
        table.add_row(*cells, style="" if level.holds(limit_ms) else "yellow")
    return table


def plot_levels(levels: Sequence[Level], limit_ms: float, path: Path) -> None:
    """The curve: latency over conversations at once. Raises InputError where it cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    known = [(level.sessions, level.voice_to_voice) for level in levels if level.voice_to_voice]
    counts = [count for count, _ in known]
    axes.plot(counts, [latency.p95_ms / 1000 for _, latency in known], marker="o", label="p95")
    axes.plot(counts, [latency.p50_ms / 1000 for _, latency in known], marker="o", label="p50")
    axes.axhline(limit_ms / 1000, color="grey", linestyle="--", linewidth=1)
    axes.set(xlabel="conversations at once", ylabel="voice to voice, s", ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise InputError(f"{path}: cannot write the picture: {error.strerror}") from error
    finally:
        pyplot.close(figure)
