"""Decoders: how tokens go through the model. One decoder holds the keys and values of one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import torch

    from codec.inject import Injection, Injector


class Decoder(Protocol):
    """The KV cache of one conversation, and the forward pass that extends it; runs in the model's own thread."""

    states: torch.Tensor | None  # of the tokens last read, [tokens, width], where a codec reads them

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns float32 logits ``[len(wanted), vocabulary]`` after the wanted ones of them."""

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""

    def inject(self, prepared: Any) -> None:
        """What is read from now on sees this state (see injection.py); None: the model as it is."""

    def wipe(self) -> None:
        """Leave nothing in memory of what was cropped, and of the state."""


D = TypeVar("D", bound=Decoder)


class Piece(NamedTuple, Generic[D]):
    """Tokens that a decoder is to read, and the places among them whose logits are wanted."""

    decoder: D
    ids: list[int]
    wanted: list[int]


def forward_in_turn(pieces: Sequence[Piece[Any]]) -> list[torch.Tensor | Exception]:
    """The logits of every piece, one after the other; a failure stays with its own."""
    results: list[torch.Tensor | Exception] = []
    for decoder, ids, wanted in pieces:
        try:
            results.append(decoder.forward(ids, wanted))
        except Exception as error:  # noqa: BLE001 - handed to whoever wanted the piece read
            results.append(error)
    return results


class StockDecoder:
    """Any decoder-only transformers model, with transformers' own cache."""

    def __init__(self, model: Any, injector: Injector | None = None) -> None:
        from transformers import DynamicCache

        self._model = model
        self._injector = injector
        self._injection: Injection | None = None
        self._cache: Any = DynamicCache(config=model.config)
        self.states: torch.Tensor | None = None

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns the logits after the wanted ones."""
        if self._injector is None:
            return self._forward(ids, wanted)
        with self._injector.active(self._injection) as tap:
            logits = self._forward(ids, wanted)
        self.states = tap.states[0]
        return logits

    def _forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        import torch

        device = self._model.device
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor([ids], device=device),
                cache=self._cache,
                use_cache=True,
                logits_to_keep=torch.tensor(wanted, dtype=torch.long, device=device),
            )
            logits: torch.Tensor = output.logits[0].float()
            return logits

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._cache.crop(length - self._cache.get_seq_length())  # a negative count: how many to forget

    def inject(self, prepared: Injection | None) -> None:
        """What is read from now on sees this state."""
        self._injection = prepared

    def wipe(self) -> None:
        """Overwrite what was cropped: a cropped cache is a view, behind which the rest lives on."""
        import torch

        self._injection = self.states = None
        with torch.inference_mode():
            for layer in self._cache.layers:
                if layer.is_initialized:
                    layer.keys, layer.values = _moved(layer.keys), _moved(layer.values)


def _moved(held: torch.Tensor) -> torch.Tensor:
    """A copy, the original's memory being overwritten with zeros."""
    copy = held.clone()
    held.set_(held.untyped_storage()).zero_()
    return copy
