"""What recordings are replayed through: servers in this process, a server elsewhere, the naive assistant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from clients.clip import replay_clip
from clients.measure import ClipResult
from clients.recordings import Recording
from clients.report import DRAFTS, NO_DRAFTS, REMOTE, SEQUENTIAL
from clients.sequential import SequentialAssistant, UntrimmedHibari
from clients.summary import Outcome
from pipeline.config import Config
from pipeline.ports import RATE_HZ

if TYPE_CHECKING:
    from pipeline.backends.loader import Models

Variant = Callable[[Recording], Awaitable[ClipResult]]
Progress = Callable[[str, Outcome], None]


def open_remote(url: str, *, key: str, pace: float) -> dict[str, Variant]:
    """One variant: the server at ``url``."""
    return {REMOTE: partial(replay_clip, url=url, key=key, pace=pace)}


@asynccontextmanager
async def open_embedded(
    config: Config, drafts: Sequence[bool], *, pace: float, sequential: bool
) -> AsyncIterator[tuple[dict[str, Variant], Models]]:
    """A server in this process for each way of drafting, all on the same loaded models, which come along."""
    from server.app import Server

    variants: dict[str, Variant] = {}
    models, voice = None, None
    async with AsyncExitStack() as stack:
        for on in drafts:
            wanted = replace(config, turn=replace(config.turn, drafts=on))
            server = await stack.enter_async_context(Server(wanted, models=models, voice=voice))
            models, voice = server.models, server.voice
            variants[DRAFTS if on else NO_DRAFTS] = partial(replay_clip, url=server.realtime_url, pace=pace)
        assert models is not None  # there is at least one way of drafting
        if sequential:
            assistant = await stack.enter_async_context(_naive(models, config))
            variants[SEQUENTIAL] = assistant.replay
        yield variants, models


async def replay_interleaved(
    recordings: Sequence[Recording], variants: Mapping[str, Variant], progress: Progress
) -> dict[str, list[Outcome]]:
    """Every recording through every variant before the next recording, so that all meet the same machine.

    The order of the variants turns by one from recording to recording: none is always first.
    """
    outcomes: dict[str, list[Outcome]] = {name: [] for name in variants}
    for index, recording in enumerate(recordings):
        for name in _rotated(list(variants), index):
            outcome = Outcome(recording, await variants[name](recording))
            outcomes[name].append(outcome)
            progress(name, outcome)
    return outcomes


async def recognise_offline(recordings: Sequence[Recording], models: Models) -> list[Outcome]:
    """What the same recogniser makes of each whole recording when it may take its time."""
    return [
        Outcome(recording, ClipResult((await models.recogniser.recognise_padded(recording.at(RATE_HZ))).text))
        for recording in recordings
    ]


@asynccontextmanager
async def _naive(models: Models, config: Config) -> AsyncIterator[SequentialAssistant]:
    with closing(UntrimmedHibari(config.speech.voice)) as voice:
        await voice.speak("Hello there.")  # loads it, as every other model is loaded before the first clip
        yield SequentialAssistant(
            vad=models.vad.open(),
            recogniser=models.recogniser,
            language_model=models.language_model,
            voice=voice,
            instructions=config.llm.instructions,
            max_tokens=config.llm.max_tokens,
        )


def _rotated(names: list[str], by: int) -> Iterator[str]:
    shift = by % len(names)
    return iter(names[shift:] + names[:shift])
