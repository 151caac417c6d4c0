"""A codec on a decoder: decoders that keep the states a codec reads, and states made ready for them."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from codec.model import StateCodec
from codec.placing import placed
from codec.window import FusedState
from pipeline.backends.decoders import Decoder
from pipeline.backends.lean_llama import LeanDecoder, LeanLlama, Slots
from pipeline.ports import InputError


class StateInjection(Protocol):
    """One codec on one set of weights; runs in the model's own thread."""

    def open(self) -> Decoder:
        """A decoder that keeps the states which the codec reads, and takes what ``prepare`` makes."""

    def prepare(self, state: FusedState) -> Any:
        """A state made ready for such a decoder; None for an empty one."""


class LeanInjection:
    """On the lean decoder, which has room in front of its tokens."""

    def __init__(self, weights: LeanLlama, codec: StateCodec, sink_id: int) -> None:
        """Raises InputError for a codec of another kind than ``attention_slots``."""
        if codec.config.fusion_mode != "attention_slots":
            raise InputError(
                f"the lean decoder takes codecs of attention_slots, not {codec.config.fusion_mode}; use"
                " llm.decoder=stock"
            )
        self._weights, self._codec = weights, codec
        self._sink = weights.open()  # what every slot sees: the token that any prompt begins with
        self._sink.forward([sink_id], [0])

    def open(self) -> LeanDecoder:
        """A decoder with room for a full window."""
        return self._weights.open(self._codec.config.window_slots, self._codec.config.layer)

    def prepare(self, state: FusedState) -> Slots | None:
        """The slots, run through the upper layers; empty ones are left out and keep their positions."""
        if not state.segments:
            return None
        decoder = self._codec.decoder
        with torch.no_grad():
            slots, log_weights = (row[0] for row in placed([state], self._codec.config))
            places = (log_weights > -torch.inf).nonzero()[:, 0]
            hidden, gained = decoder.hidden(slots[places]), log_weights[places] + decoder.gain
        return self._sink.slots(hidden.numpy(), places.numpy() + 1, gained.numpy(), self._codec.config.layer)
