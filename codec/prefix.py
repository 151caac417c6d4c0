"""Keys and values in front of those that a cache holds, for the length of one attention; and its mask."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

# The name of the cache argument has changed in transformers; the newest first.
CACHE_NAMES = ("cache", "past_key_values", "past_key_value")

KeysValues = tuple[Tensor, Tensor]  # each [B, key heads, k, head width]


def cache_argument(model: Any) -> str:
    """What the model's forward calls its cache."""
    parameters = inspect.signature(model.forward).parameters
    return next(name for name in CACHE_NAMES if name in parameters)


def keys_values(cache: DynamicCache) -> list[KeysValues]:
    """What a cache holds, layer by layer."""
    layers: Any = cache.layers
    return [(layer.keys, layer.values) for layer in layers]


def filled_cache(layers: Sequence[KeysValues], rows: int) -> DynamicCache:
    """A new cache that begins with the same keys and values in each of so many rows."""
    cache = DynamicCache()
    for layer, (keys, values) in enumerate(layers):
        cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), layer)
    return cache


def with_columns(log_weights: Tensor, mask: Tensor | None, queries: int, keys: int) -> Tensor:
    """An additive mask [B, 1, queries, k + keys]. A kernel that got no mask was causal by itself."""
    if mask is None:
        mask = log_weights.new_full((1, 1, queries, keys), -torch.inf).triu(keys - queries + 1)
    elif mask.dtype == torch.bool:
        mask = log_weights.new_zeros(()).masked_fill(~mask, -torch.inf)
    slots = log_weights[:, None, None].expand(-1, -1, queries, -1)
    return torch.cat([slots, mask.expand(len(log_weights), 1, queries, -1)], -1)


class PrefixedCache:
    """The cache that one attention sees for the length of one call: slots first, then what ``cache`` holds."""

    def __init__(self, cache: Any, prefix: KeysValues) -> None:
        self._cache, self._prefix = cache, prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> KeysValues:
        """Store the tokens' keys and values; give slots and tokens to the attention."""
        if self._cache is not None and _grows_by_copy(self._cache, layer):
            return self._update_in_one_copy(self._cache.layers[layer], keys, values)
        if self._cache is not None:
            keys, values = self._cache.update(keys, values, layer, *args, **kwargs)
        return _behind(self._prefix[0], keys), _behind(self._prefix[1], values)

    def _update_in_one_copy(self, stored: Any, keys: Tensor, values: Tensor) -> KeysValues:
        """A growing cache copies itself every token: copy it behind the slots, and store the view without them."""
        slots = self._prefix[0].shape[-2]
        keys = torch.cat([_rows(self._prefix[0], keys), stored.keys, keys], -2)
        values = torch.cat([_rows(self._prefix[1], values), stored.values, values], -2)
        stored.keys, stored.values = keys[..., slots:, :], values[..., slots:, :]
        return keys, values


def _grows_by_copy(cache: Any, layer: int) -> bool:
    layers = getattr(cache, "layers", ())
    if layer >= len(layers):
        return False
    return type(layers[layer]).__name__ == "DynamicLayer" and bool(layers[layer].is_initialized)


def _rows(prefix: Tensor, like: Tensor) -> Tensor:
    return prefix.to(like.dtype).expand(len(like), -1, -1, -1)


def _behind(prefix: Tensor, tokens: Tensor) -> Tensor:
    return torch.cat([_rows(prefix, tokens), tokens], -2)
