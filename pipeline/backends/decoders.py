"""Decoders: how tokens go through the model. One decoder holds the keys and values of one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class Decoder(Protocol):
    """The KV cache of one conversation, and the forward pass that extends it; runs in the model's own thread."""

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns float32 logits ``[len(wanted), vocabulary]`` after the wanted ones of them."""

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""


class StockDecoder:
    """Any decoder-only transformers model, with transformers' own cache."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        self._model = model
        self._cache: Any = DynamicCache(config=model.config)

    def forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns the logits after the wanted ones."""
        import torch

        device = self._model.device
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor([ids], device=device),
                cache=self._cache,
                use_cache=True,
                logits_to_keep=torch.tensor(wanted, device=device),
            )
            logits: torch.Tensor = output.logits[0].float()
            return logits

    def crop(self, length: int) -> None:
        """Forget all but the first ``length`` tokens."""
        self._cache.crop(length - self._cache.get_seq_length())  # a negative count: how many to forget
