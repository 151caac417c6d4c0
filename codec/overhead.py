"""What a state in use costs, in time and in operations, against the same loop without one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from codec.inject import Injection, Injector
from codec.window import FusedState


@dataclass(frozen=True)
class Overhead:
    """Cost of a state in use. Shares are of the same loop without a state, in the same run."""

    step_ms: float
    extra_step_share: float
    extra_flops_share: float
    encode_ms: float
    prepare_ms: float


@torch.no_grad()
def measure_overhead(injector: Injector, state: FusedState, prompt: Sequence[int], tokens: int = 48) -> Overhead:
    """Decode with the state and without, token by token in turn, so that both see the same machine."""
    begun = time.perf_counter()
    injection = injector.prepare([state])
    prepare_s = time.perf_counter() - begun
    streams = [_Stream(injector, prompt, None), _Stream(injector, prompt, injection)]
    times = np.array([[stream.step() for stream in streams] for _ in range(tokens)])[2:]
    hidden = torch.randn(1, 12, injector.codec.config.d_model)
    begun = time.perf_counter()
    injector.codec.encoder(hidden, torch.ones(1, 12))
    encode_s = time.perf_counter() - begun
    plain = float(np.median(times[:, 0]))
    extra = float(np.median(times[:, 1] - times[:, 0])) / plain
    return Overhead(plain * 1e3, extra, _extra_flops(injector), encode_s * 1e3, prepare_s * 1e3)


class _Stream:
    """A greedy reply, a token a step."""

    def __init__(self, injector: Injector, prompt: Sequence[int], injection: Injection | None) -> None:
        self._injector, self._injection, self._cache = injector, injection, DynamicCache()
        self._next = torch.tensor([list(prompt)], device=injector.model.device)
        self.step()

    def step(self) -> float:
        begun = time.perf_counter()
        with self._injector.active(self._injection):
            final = self._injector.read(self._cache, input_ids=self._next)
        logits = self._injector.model.get_output_embeddings()(final[:, -1:])
        self._next = logits.argmax(-1)
        return time.perf_counter() - begun


def _extra_flops(injector: Injector) -> float:
    """Share of a decoding step: scores and sums over a full window's slots, against the weights' products."""
    config, model_config = injector.codec.config, injector.model.config
    upper = model_config.num_hidden_layers - config.layer
    width = model_config.num_attention_heads * (
        getattr(model_config, "head_dim", None) or model_config.hidden_size // model_config.num_attention_heads
    )
    slots = 4 * width * config.window_slots * upper
    weights: Any = sum(p.numel() for name, p in injector.model.named_parameters() if p.dim() > 1)
    return float(slots / (2 * weights))
