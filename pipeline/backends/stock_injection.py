"""A codec on a transformers model, by hooks."""

from __future__ import annotations

from typing import Any

from codec.inject import Injection, Injector
from codec.model import StateCodec
from codec.window import FusedState
from pipeline.backends.decoders import StockDecoder


class StockInjection:
    """The StateInjection of any decoder-only model."""

    def __init__(self, model: Any, codec: StateCodec, sink_id: int) -> None:
        self._injector = Injector(model, codec.to(model.device), sink_id)

    def open(self) -> StockDecoder:
        """A decoder that is called through the hooks."""
        return StockDecoder(self._injector.model, self._injector)

    def prepare(self, state: FusedState) -> Injection | None:
        """The slots, run through the upper layers."""
        return self._injector.prepare([state])
