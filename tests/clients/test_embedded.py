"""On the real models: a human reading through Echoic, drafting or not, and through the naive assistant."""

from __future__ import annotations

from pathlib import Path

import pytest

from audio.wav import read_recording
from clients.bench import open_embedded, recognise_offline, replay_interleaved
from clients.recordings import Recording
from clients.report import Report
from pipeline.config import Config
from pipeline.store import Store

pytestmark = pytest.mark.models

SPOKEN = "ever tried ever failed"


def reading(store: Store) -> Recording:
    """The first words of a human reading: 2.7 s of speech."""
    chunk = read_recording(store.path("demo-recordings") / "beckett.wav")
    end = round(2.95 * chunk.rate_hz)
    return Recording(Path("beckett.wav"), chunk.samples[:end], chunk.rate_hz, SPOKEN, speech_end_s=2.7)


async def test_a_human_reading_is_heard_and_answered_by_every_variant(store: Store) -> None:
    recordings = [reading(store)]
    async with open_embedded(Config(), (True, False), pace=1.0, sequential=True) as (variants, models):
        outcomes = await replay_interleaved(recordings, variants, lambda _variant, _outcome: None)
        offline = await recognise_offline(recordings, models)
    report = Report({}, outcomes, offline)
    assert list(report.outcomes) == ["drafts", "no drafts", "sequential"]
    for variant, summary in report.summaries().items():
        assert summary.problems == {}, variant
        assert summary.voice_to_voice is not None, variant
        assert summary.word_errors.errors == 0, variant
    drafted, cold = (report.outcomes[variant][0].result.answer for variant in ("drafts", "no drafts"))
    assert drafted is not None
    assert cold is not None
    assert drafted.heard != cold.heard or drafted.reply == cold.reply
