"""Small randomly initialised models of the families that the codec supports, and what tests make of them."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from codec.binding import BaseModel
from codec.fit import Frozen
from codec.inject import Injector
from codec.model import CodecConfig, StateCodec
from codec.prefix import cache_argument
from codec.window import FusedState, SegmentState, fuse

WIDTH, LAYERS, LAYER, VOCABULARY, SINK = 32, 4, 2, 61, 1

_SIZES: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "pad_token_id": 0,
    "bos_token_id": SINK,
    "eos_token_id": 2,
}
FAMILIES = {
    "llama": LlamaConfig(**_SIZES),
    "qwen2": Qwen2Config(**_SIZES),
    "qwen3": Qwen3Config(**_SIZES),
    "gemma": GemmaConfig(**_SIZES),
    "gemma2": Gemma2Config(**_SIZES, sliding_window=6),
    "gemma3": Gemma3TextConfig(**_SIZES, sliding_window=6),
    "mistral": MistralConfig(**_SIZES, sliding_window=6),
}


def build(family: str, kernel: str = "sdpa") -> Any:
    """A frozen model of a family; the same weights every time."""
    torch.manual_seed(7)
    kernel = "eager" if family == "gemma2" else kernel  # its capped logits exist in that kernel only
    model = AutoModelForCausalLM.from_config(FAMILIES[family], attn_implementation=kernel)
    return model.eval().requires_grad_(False)


def attach(model: Any, **sizes: Any) -> Injector:
    """An injector with a random codec of 4 numbers a slot."""
    torch.manual_seed(11)
    config = CodecConfig(**{"d_model": WIDTH, "layer": LAYER, "compression_ratio": 1 / 8, "slots": 3} | sizes)
    return Injector(model, StateCodec(config).eval(), SINK)


def state(seed: int = 0, segments: int = 2, dims: int = 4) -> FusedState:
    """A state of some random segments."""
    draw = torch.Generator().manual_seed(seed)
    made = [SegmentState.of(torch.randn(3, dims, generator=draw), 5) for _ in range(segments)]
    return fuse(tuple(made), 0.7)


def ids(count: int, rows: int = 1, seed: int = 0) -> torch.Tensor:
    """Random token ids [rows, count] that begin as every prompt does."""
    drawn = torch.randint(3, VOCABULARY, (rows, count), generator=torch.Generator().manual_seed(seed))
    drawn[:, 0] = SINK
    return drawn


@torch.no_grad()
def run(model: Any, tokens: torch.Tensor, cache: DynamicCache | None = None) -> torch.Tensor:
    """Logits of one call."""
    logits: torch.Tensor = model(
        input_ids=tokens, **{cache_argument(model): cache}, use_cache=cache is not None
    ).logits
    return logits


TEMPLATE = "{% for one in messages %}<s> {{ one['role'] }} {{ one['content'] }} </s> {% endfor %}"


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the words of the texts, with a chat template."""
    splitter = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")])
    words = {word for text in texts for word, _ in splitter.pre_tokenize_str(text)}
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    vocabulary = {word: at for at, word in enumerate([*special, *sorted(words | {"system", "user", "assistant"})])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = splitter
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    fast.add_special_tokens({"additional_special_tokens": ["<s>", "</s>"]})
    fast.chat_template = TEMPLATE
    return fast


def frozen(texts: list[str]) -> Frozen:
    """A model that is told apart by what it reads: random, but with weights large enough to attend sharply."""
    words = tokenizer(texts)
    sizes = _SIZES | {"vocab_size": len(words), "initializer_range": 0.25}
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**sizes), attn_implementation="eager")
    model.eval().requires_grad_(False)
    return Frozen(model, words, BaseModel.of(model, "miniature"))
