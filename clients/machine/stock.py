"""What the language model is held against: transformers' own ``generate``, driven as anybody would."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
import transformers

GPU_GOES = 20  # in one timing, for a launch takes as long as some reading


class StockModel:
    """The same weights in the type they are stored in, on all cores or on the GPU."""

    def __init__(self, source: str | Path, device: str) -> None:
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(source), dtype="auto")
        self._model = model.to(device).eval()
        self.dtype = str(model.dtype).removeprefix("torch.")

    @property
    def stored_bytes(self) -> int:
        """What all weights are, tied ones once."""
        return int(sum(each.numel() * each.element_size() for each in self._model.parameters()))

    @property
    def int8_bytes(self) -> int:
        """What they are as int8 with a float32 scale a row, vectors as float32."""
        weights = list(self._model.parameters())
        rows = sum(each.numel() + 4 * len(each) for each in weights if each.dim() > 1)
        return int(rows + sum(4 * len(each) for each in weights if each.dim() == 1))

    def step_s(self, ids: list[int], tokens: int) -> float:
        """Seconds a token of a greedy reply, the first left out."""
        torch.set_num_threads(os.cpu_count() or 1)
        prompt, ticks = torch.tensor([ids], device=self._model.device), _Ticks()
        self._model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=0,
            streamer=ticks,
        )
        return (ticks.at[-1] - ticks.at[0]) / (len(ticks.at) - 1)


class _Ticks(transformers.generation.streamers.BaseStreamer):
    """Notes when each token comes."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self._prompt = True

    def put(self, value: Any) -> None:
        if not self._prompt:
            self.at.append(time.perf_counter())
        self._prompt = False

    def end(self) -> None: ...


def why_no_gpu() -> str | None:
    """Why nothing can be measured on a GPU here; None where it can."""
    if torch.cuda.is_available():
        return None
    sees = "sees no CUDA device" if torch.version.cuda else "is built without CUDA"
    return f"torch {torch.__version__} {sees}"


class GpuReading:
    """A stretch of the GPU's memory, and the time that a sum of it takes."""

    def __init__(self, size: int) -> None:
        self._words = torch.ones(size // 4, dtype=torch.float32, device="cuda")
        self.bytes = len(self._words) * 4

    def bytes_per_s(self) -> float:
        """Bytes a second."""
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(GPU_GOES):
            self._words.sum()
        torch.cuda.synchronize()
        return self.bytes * GPU_GOES / (time.perf_counter() - began)
