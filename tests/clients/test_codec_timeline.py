from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from clients.codec_plots import draw_memory, draw_recovery
from clients.codec_timeline import Moment, Stretch, hear, remember
from codec.health import Calibration
from codec.memory import EchoicMemory, SegmentEncoder
from codec.model import CodecConfig, StateEncoder
from codec.verdict import Verdict
from codec.window import StateWindow
from pipeline.ports import RATE_HZ, Hypothesis, Samples

CONFIG = CodecConfig(d_model=32, layer=2, compression_ratio=1 / 4, slots=3)


class LoudIsSpeech:
    """Takes every frame that is not silent for speech."""

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        return [float(np.abs(frame).max() > 0) for frame in frames]

    def reset(self) -> None:
        pass


class CountsSeconds:
    """Recognises how long the sound is."""

    async def recognise(
        self, sound: Samples, *, prompt: str = "", prefix: str = "", guess: str = "", timed: bool = False
    ) -> Hypothesis:
        return Hypothesis(f"{len(sound) / RATE_HZ:.1f} seconds")


def sound(*parts: tuple[float, float]) -> Samples:
    """Parts of (seconds, level)."""
    return np.concatenate([np.full(round(seconds * RATE_HZ), level, np.float32) for seconds, level in parts])


def moments(said: list[Stretch]) -> list[Moment]:
    torch.manual_seed(2)
    encoder = StateEncoder(CONFIG).requires_grad_(False)
    segments = [encoder(torch.randn(1, 9, 32), torch.ones(1, 9))[0][0] for _ in range(80)]
    memory = EchoicMemory(Calibration.measure(segments, slack=4.0), StateWindow())
    return remember(said, lambda _: torch.randn(7, 32), SegmentEncoder(encoder), memory, 2.0, 9)


async def test_a_recording_is_cut_at_its_pauses_only() -> None:
    recording = sound((1.0, 0.0), (2.0, 0.5), (0.1, 0.0), (1.0, 0.5), (1.0, 0.0), (2.0, 0.5))
    heard = await hear(recording, LoudIsSpeech(), CountsSeconds())
    assert [stretch.text for stretch in heard] == ["3.1 seconds", "2.0 seconds"]
    assert abs(heard[0].begin_s - 1.0) < 0.05
    assert abs(heard[0].end_s - 4.1) < 0.05


def test_the_memory_fills_at_the_pause_and_is_empty_three_seconds_later() -> None:
    played = moments([Stretch(0.5, 2.0, "seven words")])
    filled = [round(moment.time_s, 1) for moment in played if moment.slots.any()]
    assert filled[0] == 2.0
    assert filled[-1] == 4.8


def test_both_pictures_are_drawn(tmp_path: Path) -> None:
    said = [Stretch(0.5, 2.0, "seven words")]
    draw_memory(moments(said), said, tmp_path / "a.png")
    verdict = Verdict(8, 36, recovery={"recall": {"state": (0.8, 0.7, 0.9), "wrong state": (0.1, 0.0, 0.2)}})
    draw_recovery({"one": verdict}, tmp_path / "b.png")
    assert all((tmp_path / name).stat().st_size > 1_000 for name in ("a.png", "b.png"))
