"""From measurements to rows: what each is held against, and the goals. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clients.machine.figures import (
    Figure,
    Goal,
    Ratio,
    Row,
    exactly,
    mean_ms,
    median_ms,
    median_percent,
    median_rate,
    p99_ms,
)

if TYPE_CHECKING:
    from clients.machine.served import Outside

GIGA, MEGA, KILO = 1e9, 1e6, 1e3
Seconds = Sequence[float]


@dataclass(frozen=True, slots=True)
class Weights:
    """What a token reads: so many bytes of weights, in a form that has a name, by so many cores or a GPU."""

    bytes: int
    form: str
    reader: str


def bandwidth(bytes_per_s: Sequence[float], reader: str, size: int) -> Row:
    """How fast memory is read."""
    return Row(
        f"memory, {reader}",
        median_rate([rate / GIGA for rate in bytes_per_s], "GB/s"),
        f"{size / MEGA:.0f} MB, as many as a token's weights, summed up by {reader}",
    )


def decode(steps: Seconds, stock: Seconds, weights: Weights, bytes_per_s: Sequence[float]) -> list[Row]:
    """A token of one conversation, against memory and against transformers."""
    step, floor_ms = median_ms(steps), [weights.bytes / rate * 1000 for rate in bytes_per_s]
    floor = Figure(statistics.median(floor_ms), min(floor_ms), "ms", len(floor_ms))
    how = "a token of a reply through a conversation, tokenizer and codec included, the first left out"
    return [
        Row(
            "decode, batch 1: of the limit",
            step,
            how,
            f"{weights.bytes / MEGA:.0f} MB of {weights.form} weights read once by {weights.reader}",
            floor,
            Ratio(floor.value / step.value * 100, "%"),
            Goal(50, "%", at_least=True),
        ),
        Row(
            "decode, batch 1: against stock",
            step,
            how,
            "transformers' generate, greedy, in the type the weights are stored in, on all cores or the GPU",
            median_ms(stock),
            Ratio(statistics.median(stock) * 1000 / step.value, "x"),
            Goal(3, "x", at_least=True),
        ),
    ]


def batch(together: Sequence[float], alone: Sequence[float], sessions: int) -> Row:
    """Tokens a second of several conversations at once."""
    all_of_them, one = median_rate(together, "tokens/s"), median_rate(alone, "tokens/s")
    return Row(
        f"decode, {sessions} sessions at once",
        all_of_them,
        f"{sessions} replies of as many conversations side by side, in total, from when each has its first token",
        "one of them alone",
        one,
        Ratio(all_of_them.value / one.value, "x"),
        Goal(4, "x", at_least=True),
    )


def first_token(firsts: Seconds, steps: Seconds) -> Row:
    """The wait for a reply's first token when all but the last words were read."""
    first, step = median_ms(firsts), median_ms(steps)
    return Row(
        "first token after the pause",
        first,
        "from the whole question, all but its last two words having been prefilled, to the reply's first token",
        "a decode step",
        step,
        Ratio(first.value / step.value, "steps"),
        Goal(3, "steps"),
    )


def codec(shares: Sequence[float], segments: Seconds) -> list[Row]:
    """What memory costs a token of a reply, and what it costs once the reply is over."""
    how = "keeping states, with a full window in view, less the same token without; token for token in turn"
    return [
        Row("codec, a token", median_percent(shares), how, goal=Goal(1, "%")),
        Row("segments, a token", median_ms(segments), "making them of a message and its reply, after the reply"),
    ]


def updates(took: Seconds, least: Seconds, window_s: float, tick_ms: int) -> list[Row]:
    """The transcriber's passes over speech as it comes."""
    mean, floor = mean_ms(took), mean_ms(least) if least else None
    how = f"all passes over {window_s:g} s windows of a human voice as they grow, fed in real time; the mean"
    share = Row(
        "recognition, update: of a tick",
        mean,
        how,
        "a core's tick",
        exactly(tick_ms, "ms"),
        Ratio(mean.value / tick_ms * 100, "%"),
        Goal(25, "%"),
    )
    if floor is None:
        return [share]
    against = "the encoder at the same lengths and one pass of the decoder"
    return [share, Row("recognition, update", mean, how, against, floor, Ratio(mean.value / floor.value, "x"))]


def final(took: Seconds, least: Seconds, utterance_s: float) -> Row:
    """The pass after the pause."""
    figure, floor = median_ms(took), median_ms(least) if least else None
    return Row(
        f"recognition, final of {utterance_s:g} s",
        figure,
        "the pass over a whole utterance when all but its last 0.2 s was heard before",
        "the encoder at its length and one pass of the decoder" if floor else "",
        floor,
        Ratio(figure.value / floor.value, "x") if floor else None,
        Goal(60, "ms"),
    )


def loop_lag(lags: Seconds, sessions: int) -> Row:
    """How late the event loop is while several users talk."""
    how = f"p99 of how late a timer fires while {sessions} users ask in real time, their clients on the same loop"
    return Row(f"loop lag, {sessions} sessions", p99_ms(lags), how, goal=Goal(10, "ms"))


def overhead(took: Seconds) -> Row:
    """What the pipeline adds to its models."""
    how = "pause seen to first sound sent, every model at no cost, the turn over at the pause; sockets included"
    return Row("pipeline itself", median_ms(took), how, goal=Goal(5, "ms"))


def outside(seen: Outside, kv_bytes: int, state_bytes: int) -> list[Row]:
    """A server's process, and what its sessions hold."""
    return [
        idle("idle, one silent session", "silence", seen.silent_share, seen.empty_share),
        idle("idle, one session in a quiet room", "noise of -60 dB", seen.hissing_share, seen.empty_share),
        start(seen.starts_s, seen.readings_s),
        *memory(seen.empty, seen.added, seen.weights, kv_bytes),
        *([state_only(state_bytes)] if state_bytes else []),
    ]


def idle(what: str, sent: str, share: float, empty_share: float) -> Row:
    """What one session costs in which nobody speaks."""
    return Row(
        what,
        exactly(share * 100, "%"),
        f"processor time of `echoic serve`, of one core, while one client sends {sent}, 20 ms a message; without "
        "the self-test, which is a turn every ten minutes",
        "the same without a session",
        exactly(empty_share * 100, "%"),
        goal=Goal(2, "%"),
    )


def start(starts: Seconds, reading: Seconds) -> Row:
    """How soon a warm server is ready."""
    took, floor = _in_seconds(starts), _in_seconds(reading)
    return Row(
        "start to ready",
        took,
        "`echoic serve` from the command to its address, everything in the file cache",
        "reading the files of its models",
        floor,
        Ratio(took.value / floor.value, "x"),
        Goal(5, "s"),
    )


def memory(empty: int, each: Sequence[int], weights: int, kv: int) -> list[Row]:
    """Resident bytes: a server without sessions, and what each session adds after a turn."""
    first, *further = [size / MEGA for size in each]
    rows = [
        Row(
            "memory, no session",
            exactly(empty / MEGA, "MB"),
            "resident memory of `echoic serve` once it is ready",
            "the files of its models",
            exactly(weights / MEGA, "MB"),
            Ratio(empty / weights, "x"),
        ),
        _session_row("memory, first session", exactly(first, "MB"), kv),
    ]
    if further:
        more = Figure(statistics.median(further), min(further), "MB", len(further))
        rows.append(_session_row("memory, each further session", more, kv))
    return rows


def _session_row(what: str, figure: Figure, kv: int) -> Row:
    limit = exactly(kv / MEGA, "MB")
    ratio = Ratio(figure.value / limit.value, "x") if kv else None
    how = "resident memory that a session adds that has had one turn"
    return Row(what, figure, how, "its buffers of keys and values, counted", limit, ratio)


def state_only(size: int) -> Row:
    """What a session keeps between turns when it remembers by states alone."""
    how = "all numbers of a full window of segments: what a session with llm.history_tokens=0 keeps of its turns"
    return Row("state of a session", exactly(size / KILO, "kB"), how, goal=Goal(2, "kB"))


def _in_seconds(seconds: Seconds) -> Figure:
    return Figure(statistics.median(seconds), min(seconds), "s", len(seconds))
