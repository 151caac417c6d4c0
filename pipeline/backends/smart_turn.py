"""Smart Turn v3.2 on onnxruntime: by the sound of it, is the speaker done?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from faster_whisper.feature_extractor import FeatureExtractor

from pipeline.backends.log_mel import LogMel
from pipeline.backends.stage import failing_as
from pipeline.cores import Cores
from pipeline.ports import RATE_HZ, InputError, Samples
from pipeline.worker import Worker

HEARD_S = 8
HEARD_SAMPLES = HEARD_S * RATE_HZ


class SmartTurn:
    """The TurnEnd port: one set of weights and the thread that runs them, 50-70 ms a judgement on one core."""

    def __init__(self, path: Path, cores: Cores | None = None) -> None:
        """Load the ONNX file. Raises InputError when it is not there or cannot be read."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's errors have no common base below Exception
            raise InputError(f"turn-end model {path}: {str(error).splitlines()[0]}") from error
        self._features = LogMel(FeatureExtractor().mel_filters)
        self.worker = Worker("turn", cores)

    async def judge(self, sound: Samples) -> float:
        """The probability in [0, 1] that the turn is over, from its last 8 s ``[samples]`` at 16 kHz."""
        with failing_as("turn end"):
            return await self.worker.run(self._judge, sound)

    def close(self) -> None:
        """End the worker thread."""
        self.worker.close()

    def _judge(self, sound: Samples) -> float:
        features = self._features(normalised(sound))[np.newaxis]  # [1, 80, 800]
        probability = self._session.run(None, {"input_features": features})[0]
        return float(probability.item())


def normalised(sound: Samples) -> Samples:
    """The last 8 s with zero mean and unit variance; shorter sound has silence put in front, as in training."""
    recent = sound[-HEARD_SAMPLES:]
    padded = np.concatenate((np.zeros(HEARD_SAMPLES - len(recent), np.float32), recent))
    scaled: Samples = ((padded - padded.mean()) / np.sqrt(padded.var() + 1e-7)).astype(np.float32)
    return scaled
