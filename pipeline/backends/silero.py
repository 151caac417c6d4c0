"""Silero VAD v6 on onnxruntime, frame by frame: one set of weights a process, one small state a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from faster_whisper.utils import get_assets_path

from pipeline.backends.stage import failing_as
from pipeline.ports import VAD_FRAME_SAMPLES, Samples
from pipeline.worker import Worker

CONTEXT_SAMPLES = 64  # the end of the frame before, which the model wants to see in front of each frame
STATE_SHAPE = (1, 1, 128)
# Below three steps of a 16-bit sample there is nothing to judge: a muted microphone, or one whose noise was taken
# out. What has heard nothing yet, or is to listen afresh, does not begin with that.
SILENT = 1e-4


class SileroModel:
    """The weights and the one thread that runs them for all conversations (about 0.1 ms a frame)."""

    def __init__(self, path: Path | None = None) -> None:
        """Load the model; by default the one inside the faster-whisper package."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(path or Path(get_assets_path()) / "silero_vad_v6.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        self.worker = Worker("vad")

    def open(self) -> SileroActivity:
        """Voice activity for one conversation."""
        return SileroActivity(self)

    def close(self) -> None:
        """End the worker thread."""
        self.worker.close()


class SileroActivity:
    """Speech probability of one conversation: feeding frames equals running the model over the whole."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self.reset()

    def reset(self) -> None:
        """Forget what was heard."""
        self._fresh = True
        self._hidden = np.zeros(STATE_SHAPE, np.float32)
        self._cell = np.zeros(STATE_SHAPE, np.float32)
        self._context = np.zeros(CONTEXT_SAMPLES, np.float32)

    async def push(self, frames: Sequence[Samples]) -> list[float]:
        """The probability in [0, 1] of each frame of 512 samples that it holds speech. Calls do not overlap.

        Several in one call are the same, to the bit, as one after the other, and cost little more than one.
        """
        for frame in frames:
            if frame.shape != (VAD_FRAME_SAMPLES,):
                raise ValueError(
                    f"voice activity takes frames of {VAD_FRAME_SAMPLES} samples, got shape {frame.shape}"
                )
        if self._fresh and all(np.abs(frame).max() < SILENT for frame in frames):
            return [0.0] * len(frames)
        self._fresh = False
        with failing_as("vad"):
            return await self._model.worker.run(self._steps, frames)

    def _steps(self, frames: Sequence[Samples]) -> list[float]:
        before = [self._context, *(frame[-CONTEXT_SAMPLES:] for frame in frames)]
        sound = np.stack([np.concatenate(pair) for pair in zip(before, frames, strict=False)])  # [frames, 576]
        inputs = {"input": sound, "h": self._hidden, "c": self._cell}
        probabilities, self._hidden, self._cell = self._model.session.run(None, inputs)
        self._context = before[-1]
        return [float(probability) for probability in probabilities.ravel()]
