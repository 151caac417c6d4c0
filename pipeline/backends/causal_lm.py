"""Any decoder-only transformers model with a chat template, with a KV cache that only ever does new work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.backends.batching import IN_TURN, TOGETHER, Steps
from pipeline.backends.bfloat16 import bfloat16_pays
from pipeline.backends.cached_sequence import common
from pipeline.backends.causal_conversation import CausalConversation
from pipeline.backends.chat_template import ChatTemplate
from pipeline.backends.decoders import Decoder, StockDecoder, forward_in_turn
from pipeline.backends.guesses import NO_GUESSES, Guesses
from pipeline.backends.lean_llama import LeanLlama
from pipeline.backends.loaded_model import load
from pipeline.config import MemoryConfig
from pipeline.cores import Cores
from pipeline.ports import InputError, Prompt
from pipeline.prepared import Prepared
from pipeline.worker import Worker

if TYPE_CHECKING:
    import torch

    from codec.binding import BaseModel
    from codec.memory import EchoicMemory
    from pipeline.backends.batching import Forward
    from pipeline.backends.model_codec import ModelCodec

# Tokens of an open message that may still change when more text follows: a tokenizer may merge across the
# border. One is not enough where a word is spelled in pieces.
UNSETTLED_TOKENS = 2


class PromptTokens(NamedTuple):
    """A prompt's token ids; of an open one only those that cannot change any more.

    ``begin``: how many stand before the last message's words. ``spoken``: how many there are up to the user's
    last word, without what closes the sentence, the message or the prompt; None where that message is another's.
    """

    ids: list[int]
    begin: int
    spoken: int | None


class _Computing(NamedTuple):
    """How a model computes: what makes a conversation's decoder, what takes a step of several of them, on how many
    cores; and the codec.

    ``rows_at_once``: how many rows a step reads at little more than the price of one, none of which depends on the
    others; with 1 there is nothing to guess.
    """

    new_decoder: Callable[[], Decoder]
    forward: Forward
    cores: int
    codec: ModelCodec | None
    rows_at_once: int = 1


class CausalLM:
    """One set of weights on one device, served by one worker thread."""

    def __init__(
        self,
        source: str | Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 1,
        cores: Cores | None = None,
        decoder: str = "auto",
        memory: MemoryConfig | None = None,
        guesses: bool = True,
        prepared: Prepared | None = None,
    ) -> None:
        """Load the weights. Raises InputError when there is no such model or it cannot chat.

        ``decoder``: "lean" (int8, Llama-shaped models on a processor), "stock", or "auto" for lean where it fits.
        ``memory``: what to remember turns by; None for text alone. ``guesses``: whether to make any.
        ``prepared``: where the packed weights of a folder are kept for the next start.
        """
        import torch

        torch.set_num_threads(threads)
        self.device = _pick_device(device)
        lean = self.device.type == "cpu" and (decoder == "lean" or (decoder == "auto" and dtype == "auto"))
        loaded = load(source, lean=lean, prepared=prepared)
        self.tokenizer, self.template = loaded.tokenizer, ChatTemplate(loaded.tokenizer)
        self.stop_ids, self.closing_ids = loaded.stop_ids, loaded.closing_ids
        if isinstance(loaded.model, LeanLlama):
            computing = _lean(loaded.model, loaded.base, memory)
        elif decoder == "lean":
            raise InputError("the lean decoder takes Llama-shaped models on a processor; use llm.decoder=stock")
        else:
            chosen = _pick_dtype(dtype, self.device, loaded.model.config.hidden_size)
            computing = _stock(loaded.model.to(self.device, chosen), loaded.base, threads, memory)
        self.new_decoder, self.codec = computing.new_decoder, computing.codec
        self.rows_at_once = computing.rows_at_once
        self.guesses = Guesses.for_model(loaded.name, self.rows_at_once - 1) if guesses else NO_GUESSES
        self.worker = Worker("llm", cores if self.device.type == "cpu" else None, computing.cores)
        limits = IN_TURN if computing.forward is forward_in_turn else TOGETHER
        self.steps = Steps(self.worker, computing.forward, limits)

    def new_memory(self) -> EchoicMemory | None:
        """An empty echoic memory for one session; None where the model has no codec."""
        return self.codec.new_memory() if self.codec else None

    def open(self) -> CausalConversation:
        """A conversation with an empty KV cache."""
        return CausalConversation(self)

    def count_tokens(self, text: str) -> int:
        """How many tokens the text is."""
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Token ids of the prompt; of an open one only those that cannot change any more."""
        return self.tokens(prompt).ids

    def tokens(self, prompt: Prompt) -> PromptTokens:
        """The prompt as tokens, and where its last message stands among them."""
        whole = [] if prompt.open else self._encode(self.template.whole(prompt))
        if (spoken := self.template.spoken(prompt)) is None:
            return PromptTokens(whole, max(0, len(whole) - 1), None)
        words = self._encode("".join(spoken))
        begin = min(common(words, self._encode(spoken[0])), len(words) - 1)
        settled = words[:-UNSETTLED_TOKENS] if prompt.messages[-1].text else words[:-1]
        return PromptTokens(settled if prompt.open else whole, begin, len(words))

    def close(self) -> None:
        """End the worker; the weights go when nothing refers to them."""
        self.worker.close()

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


def _lean(model: LeanLlama, base: BaseModel, memory: MemoryConfig | None) -> _Computing:
    from pipeline.backends.injection import LeanInjection
    from pipeline.backends.model_codec import ModelCodec, find_codec

    codec = None
    if memory and (bound := find_codec(base, memory)):
        codec = ModelCodec(LeanInjection(model, bound.codec, bound.sink_id), bound, memory)
    return _Computing((codec or model).open, model.forward, 1, codec, model.rows_at_once)


def _stock(model: Any, base: BaseModel, threads: int, memory: MemoryConfig | None) -> _Computing:
    from pipeline.backends.model_codec import ModelCodec, find_codec

    model.eval().requires_grad_(False)
    if memory and (bound := find_codec(base, memory)):
        from pipeline.backends.stock_injection import StockInjection

        codec = ModelCodec(StockInjection(model, bound.codec, bound.sink_id), bound, memory)
        return _Computing(codec.open, forward_in_turn, threads, codec)
    return _Computing(lambda: StockDecoder(model), forward_in_turn, threads, None)


def _pick_device(device: str) -> torch.device:
    import torch

    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _pick_dtype(dtype: str, device: torch.device, width: int) -> torch.dtype:
    """The dtype asked for; for "auto" on a CPU, bfloat16 only where it is clearly faster.

    float32 is kept unless bfloat16 wins by half: its rounding is finer than the gaps between logits, so the
    reply does not depend on how the prompt was cut into prefills.
    """
    import torch

    if dtype != "auto":
        named: torch.dtype = getattr(torch, dtype)
        return named
    if device.type != "cpu":
        return torch.bfloat16
    a_few_layers = [torch.randn(4 * width, width) for _ in range(16)]
    return torch.bfloat16 if bfloat16_pays(a_few_layers, 1) else torch.float32
