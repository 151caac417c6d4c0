"""Attaches a state codec to a frozen decoder-only transformers model, by hooks; detaching leaves no trace.

The model's own cache never holds a slot: in the upper layers each attention sees, for the length of one call, a
cache whose keys and values have the slots in front of the tokens'. What is stored are the tokens alone, so the
cache may be extended, cropped and batched as if nothing were attached, and the state may change between two calls.
Slots stand at the positions behind the first token, which they share with the beginning of the prompt: nothing is
shifted. With no state the hooks return at once: the same kernels run on the same numbers, and the logits are those
of the base model, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import DynamicCache

from codec.model import CodecError, StateCodec
from codec.placing import placed
from codec.prefix import (
    CACHE_NAMES,
    KeysValues,
    PrefixedCache,
    cache_argument,
    filled_cache,
    keys_values,
    with_columns,
)
from codec.window import FusedState

_MASKED_ATTENTION = ("sdpa", "eager")  # the kernels that take a mask of numbers


@dataclass(frozen=True)
class Injection:
    """A state made ready for the model it goes into: slots [B, k, c], log-weights [B, k] (-inf: empty slot).

    ``prefix`` holds the slots' keys and values in each upper layer (``attention_slots`` only).
    """

    slots: Tensor
    log_weights: Tensor
    prefix: tuple[KeysValues, ...] = ()


@dataclass
class Tap:
    """Collects the hidden states [B, n, d] at the input of layer L during a call."""

    chunks: list[Tensor] = field(default_factory=list)

    @property
    def states(self) -> Tensor:
        """All that was collected, in order."""
        return torch.cat(self.chunks, 1)


@dataclass
class _Call:
    """What the hooks do during one call of the model."""

    injection: Injection | None = None
    tap: Tap | None = None
    resume: Tensor | None = None  # stands in for what the lower layers would have computed
    masks: dict[tuple[int, int, int], tuple[Tensor | None, Tensor]] = field(default_factory=dict)

    def mask(self, mask: Tensor | None, queries: int, keys: int, dtype: torch.dtype) -> Tensor:
        """The model's attention mask with the slots' log-weights in front; made once for all upper layers."""
        assert self.injection is not None
        name = (id(mask), queries, keys)
        if name not in self.masks:
            extended = with_columns(self.injection.log_weights.to(dtype), mask, queries, keys)
            self.masks[name] = (mask, extended)  # the mask is held so that its id stays its own
        return self.masks[name][1]


class _Skipped(nn.Module):
    """Stands in for a layer whose work is not needed."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        # Some models read off the layer which mask or which rotation it wants.
        self.attention_type = getattr(layer, "attention_type", None)

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return hidden_states


class Injector:
    """A codec attached to a model. One call at a time: the worker that owns the model owns this too."""

    def __init__(self, model: Any, codec: StateCodec, sink_id: int) -> None:
        """Attach. ``sink_id``: the token that every prompt of this model begins with."""
        self.model, self.codec = model, codec
        self.decoder = model.get_decoder()
        self._layers: nn.ModuleList = self.decoder.layers
        self._upper = codec.config.layer
        self._check()
        self._cache_name = cache_argument(self.decoder)
        self._call: _Call | None = None
        self._handles: list[RemovableHandle] = []
        self._sink = self._read_sink(sink_id)
        self._attach()

    def _check(self) -> None:
        config, codec = self.model.config, self.codec.config
        if config.hidden_size != codec.d_model or not 0 < codec.layer < len(self._layers):
            raise CodecError(
                f"the codec is for d_model {codec.d_model} and more than {codec.layer} layers; this model has"
                f" d_model {config.hidden_size} and {len(self._layers)} layers: use the codec trained for it"
            )
        if config._attn_implementation not in _MASKED_ATTENTION:
            raise CodecError(
                f"attention kernel {config._attn_implementation!r} takes no weighted mask:"
                f" load the model with attn_implementation set to one of {', '.join(_MASKED_ATTENTION)}"
            )

    def _attach(self) -> None:
        mode, upper = self.codec.config.fusion_mode, range(self._upper, len(self._layers))
        self._hook(self._layers[self._upper], self._on_stream)
        if mode == "attention_slots":
            for at in upper:
                self._hook(self._layers[at].self_attn, self._on_attention)
            return
        readers = self.codec.config.readers if mode == "cross_attention" else 1
        for reader in range(readers):
            self._hook(self._layers[upper[len(upper) * reader // readers]], partial(self._add_to_stream, reader))

    def _hook(self, module: Any, hook: Any) -> None:
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def detach(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    @contextmanager
    def active(self, injection: Injection | None, lower_only: bool = False) -> Iterator[Tap]:
        """Calls of the model in this block read ``injection``; the tap collects their layer-L states.

        ``lower_only``: nothing but these states is wanted, later layers are skipped.
        """
        tap = Tap()
        skipped = range(self._upper + 1, len(self._layers)) if lower_only else range(0)
        with self._during(_Call(injection=injection, tap=tap)), self._skipped(skipped):
            yield tap

    @contextmanager
    def resuming(self, hidden: Tensor, injection: Injection | None) -> Iterator[None]:
        """The one call in this block starts at layer L+1, from ``hidden`` [B, n, d]: lower layers are skipped."""
        with self._during(_Call(injection=injection, resume=hidden)), self._skipped(range(self._upper)):
            yield

    @contextmanager
    def _during(self, call: _Call) -> Iterator[None]:
        if self._call is not None:
            raise CodecError("the model is already in a call with a state: one call at a time")
        self._call = call
        try:
            yield
        finally:
            self._call = None

    @contextmanager
    def _skipped(self, layers: range) -> Iterator[None]:
        kept = [self._layers[i] for i in layers]
        try:
            for i in layers:
                self._layers[i] = _Skipped(self._layers[i])
            yield
        finally:
            for i, layer in zip(layers, kept, strict=True):
                self._layers[i] = layer

    @torch.no_grad()
    def prepare(self, states: Sequence[FusedState | None]) -> Injection | None:
        """Make one state a row ready for the model; None when all are empty (nothing will be injected)."""
        if not any(state is not None and state.segments for state in states):
            return None
        slots, log_weights = placed(states, self.codec.config)
        device = self.codec.encoder.center.device
        return self.inject(slots.to(device), log_weights.to(device))

    def inject(self, slots: Tensor, log_weights: Tensor) -> Injection:
        """Slots [B, size * k, c] and log-weights [B, size * k], oldest first, to an Injection; differentiable."""
        if self.codec.config.fusion_mode != "attention_slots":
            return Injection(slots, log_weights)
        filled = log_weights > -torch.inf
        first = int(filled.any(0).int().argmax())  # columns on the left that are empty in every row
        slots, log_weights, filled = slots[:, first:], log_weights[:, first:], filled[:, first:]
        hidden = self.codec.decoder.hidden(slots).to(self.model.dtype)
        positions = torch.arange(first + 1, first + 1 + slots.shape[1], device=slots.device)[None]
        prefix = self._read_slots(hidden, positions, filled)
        return Injection(slots, log_weights + self.codec.decoder.gain, prefix)

    def read(self, cache: DynamicCache, **inputs: Tensor) -> Tensor:
        """Run the model without its head behind what ``cache`` holds: the final states [B, n, d]."""
        final: Tensor = self.decoder(use_cache=True, **{self._cache_name: cache}, **inputs)[0]
        return final

    @torch.no_grad()
    def _read_sink(self, sink_id: int) -> list[KeysValues]:
        """Keys and values of the token that any prompt begins with: attention rests there."""
        cache = DynamicCache()
        ids = torch.tensor([[sink_id]], device=self.model.device)
        self.read(cache, input_ids=ids)
        return keys_values(cache)

    def _read_slots(self, hidden: Tensor, positions: Tensor, filled: Tensor) -> tuple[KeysValues, ...]:
        """Run the slots through the upper layers, where they see the first token and the slots before them."""
        rows, slots, _ = hidden.shape
        cache = filled_cache(self._sink, rows)
        mask = hidden.new_full((slots, slots), -torch.inf).triu(1).expand(rows, 1, -1, -1)
        mask = mask.masked_fill(~filled[:, None, None], -torch.inf)
        mask = torch.cat([hidden.new_zeros(rows, 1, slots, 1), mask], -1)  # ready-made: no sliding window applies
        with self.resuming(hidden, None):
            self.read(cache, inputs_embeds=hidden, attention_mask=mask, position_ids=positions)
        upper = keys_values(cache)[self._upper :]
        return tuple((keys[..., 1:, :], values[..., 1:, :]) for keys, values in upper)

    def _on_stream(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """At the input of layer L+1: collect the stream, or put another in its place."""
        call = self._call
        if call is None:
            return None
        call.masks.clear()
        if call.tap is not None:
            call.tap.chunks.append(_stream(args, kwargs))
        return None if call.resume is None else _with_stream(args, kwargs, call.resume)

    def _add_to_stream(self, reader: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """At the input of an upper layer: add what the decoder makes of the state."""
        call = self._call
        if call is None or call.injection is None:
            return None
        stream = _stream(args, kwargs)
        added = self.codec.decoder(stream, call.injection.slots, call.injection.log_weights, reader)
        return _with_stream(args, kwargs, stream + added)

    def _on_attention(self, attention: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """In an upper layer: let the attention see the slots in front of the tokens."""
        call = self._call
        if call is None or call.injection is None:
            return None
        name = next(name for name in CACHE_NAMES if name in kwargs)
        hidden = _stream(args, kwargs)
        layer, queries, mask = int(attention.layer_idx), hidden.shape[1], kwargs.get("attention_mask")
        keys = queries if kwargs[name] is None else kwargs[name].get_mask_sizes(queries, layer)[0]
        prefixed = PrefixedCache(kwargs[name], call.injection.prefix[layer - self._upper])
        return args, kwargs | {name: prefixed, "attention_mask": call.mask(mask, queries, keys, hidden.dtype)}


def _stream(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    stream: Tensor = args[0] if args else kwargs["hidden_states"]
    return stream


def _with_stream(args: tuple[Any, ...], kwargs: dict[str, Any], stream: Tensor) -> Any:
    return (stream, *args[1:]), {name: value for name, value in kwargs.items() if name != "hidden_states"}
