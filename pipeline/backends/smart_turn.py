"""Smart Turn v3.2: by the sound of it, is the speaker done?"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from faster_whisper.feature_extractor import FeatureExtractor

from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.ctranslate2_weights import UnknownWeightsError
from pipeline.backends.kernels import Floats
from pipeline.backends.log_mel import LogMel
from pipeline.backends.smart_turn_kernels import probability
from pipeline.backends.smart_turn_weights import FRAMES, smart_turn_weights
from pipeline.backends.stage import failing_as
from pipeline.backends.whisper_encoder_kernels import encode
from pipeline.cores import Cores
from pipeline.ports import RATE_HZ, InputError, Samples
from pipeline.prepared import Prepared
from pipeline.worker import Worker

log = logging.getLogger(__name__)

HEARD_S = 8
HEARD_SAMPLES = HEARD_S * RATE_HZ


class SmartTurn:
    """The TurnEnd port: one set of weights and the thread that runs them, on one core.

    Where the processor has tiles of bfloat16 they are computed with in compiled loops, in a third of the time.
    """

    def __init__(self, path: Path, cores: Cores | None = None, prepared: Prepared | None = None) -> None:
        """Load the ONNX file. Raises InputError when it is not there or cannot be read.

        ``prepared``: where the packed weights are kept for the next start.
        """
        self._probability = (own_model(path, prepared) if has_tiles() else None) or onnx_model(path)
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
        return self._probability(self._features(normalised(sound)))


def normalised(sound: Samples) -> Samples:
    """The last 8 s with zero mean and unit variance; shorter sound has silence put in front, as in training."""
    recent = sound[-HEARD_SAMPLES:]
    padded = np.concatenate((np.zeros(HEARD_SAMPLES - len(recent), np.float32), recent))
    scaled: Samples = ((padded - padded.mean()) / np.sqrt(padded.var() + 1e-7)).astype(np.float32)
    return scaled


def onnx_model(path: Path) -> Callable[[Floats], float]:
    """The probability of features ``[80, 800]``, by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no common base below Exception
        raise InputError(f"turn-end model {path}: {str(error).splitlines()[0]}") from error
    return lambda features: float(session.run(None, {"input_features": features[np.newaxis]})[0].item())


def own_model(path: Path, prepared: Prepared | None) -> Callable[[Floats], float] | None:
    """The same in compiled loops, of all but the first 0.3 s; None where the model is of another kind."""
    if not path.exists():
        return None
    try:
        encoder, head = smart_turn_weights(path, prepared)
    except UnknownWeightsError as error:
        log.warning("%s is left to onnxruntime: %s", path, error)
        return None

    def judged(features: Floats) -> float:
        return float(probability(encode(np.ascontiguousarray(features[:, -2 * FRAMES :].T), encoder), head))

    judged(np.zeros((encoder.bands, 2 * FRAMES), np.float32))  # has the loops compiled, or fetched
    return judged
