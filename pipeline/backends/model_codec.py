"""The codec of a loaded language model: found, checked, and put to the uses a conversation has for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from codec.binding import BaseModel, BoundCodec, load, weights_for
from codec.memory import EchoicMemory, Said, SegmentEncoder
from codec.model import CodecError
from codec.window import FusedState, SegmentState, StateWindow
from pipeline.backends.decoders import Decoder
from pipeline.backends.injection import StateInjection
from pipeline.config import MemoryConfig
from pipeline.ports import InputError

log = logging.getLogger(__name__)


def find_codec(base: BaseModel, config: MemoryConfig) -> BoundCodec | None:
    """The codec for a model; None where there is none and none is needed.

    Raises InputError where private mode has nothing to remember by, and for a codec of another model.
    """
    try:
        bound = load(Path(config.codec).expanduser() if config.codec else weights_for(base), base)
    except CodecError as error:
        if config.mode == "echoic" or config.codec:
            raise InputError(f"memory.mode={config.mode}: {error}") from error
        log.warning("replies remember by text alone: %s", error)
        return None
    if config.segments > bound.codec.config.window:
        raise InputError(f"memory.segments={config.segments}: the codec takes {bound.codec.config.window} at most")
    return bound


class ModelCodec:
    """One codec on one set of weights; what computes runs in the model's own thread."""

    def __init__(self, injection: StateInjection, bound: BoundCodec, config: MemoryConfig) -> None:
        """``injection``: how the codec reaches the weights."""
        self._bound, self._config, self._injection = bound, config, injection
        self._encoder = SegmentEncoder(bound.codec.encoder)

    def new_memory(self) -> EchoicMemory:
        """An empty memory for one session."""
        window = StateWindow(self._config.segments, self._config.decay, self._config.expiry_s)
        return EchoicMemory(self._bound.calibration, window, log.warning)

    def open(self) -> Decoder:
        """A decoder that keeps the states of what it reads."""
        return self._injection.open()

    def prepare(self, state: FusedState | None) -> Any:
        """A state made ready for a decoder; None for an empty one."""
        return None if state is None else self._injection.prepare(state)

    def grow(self, said: Said, rows: Sequence[torch.Tensor]) -> Said:
        """A message with the states ``[width]`` of its next words."""
        return self._encoder.grow(said, torch.stack(list(rows))) if rows else said

    def segments(self, rows: Sequence[torch.Tensor]) -> tuple[SegmentState, ...]:
        """The segments of a whole message."""
        return self.grow(Said(), rows).segments
