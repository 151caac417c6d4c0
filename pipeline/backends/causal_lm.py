"""Any decoder-only transformers model with a chat template, with a KV cache that only ever does new work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.backends.batching import IN_TURN, TOGETHER, Steps
from pipeline.backends.bfloat16 import bfloat16_pays
from pipeline.backends.cached_sequence import common
from pipeline.backends.causal_conversation import CausalConversation
from pipeline.backends.chat_template import SENTENCE_ENDS, ChatTemplate
from pipeline.backends.decoders import Decoder, StockDecoder, forward_in_turn
from pipeline.backends.guesses import NO_GUESSES, Guesses
from pipeline.config import MemoryConfig
from pipeline.cores import Cores
from pipeline.ports import InputError, Prompt
from pipeline.worker import Worker

if TYPE_CHECKING:
    import torch

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
    ) -> None:
        """Load the weights. Raises InputError when there is no such model or it cannot chat.

        ``decoder``: "lean" (int8, Llama-shaped models on a processor), "stock", or "auto" for lean where it fits.
        ``memory``: what to remember turns by; None for text alone. ``guesses``: whether to make any.
        """
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.set_num_threads(threads)
        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(source))
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(source), dtype="auto")
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0]
            raise InputError(
                f"language model {source}: no store entry, folder or hub id of a model ({why})"
            ) from error
        if not self.tokenizer.chat_template:
            raise InputError(f"language model {source}: its tokenizer has no chat template; use an instruct model")
        self.template = ChatTemplate(self.tokenizer)
        self.stop_ids = _stop_ids(self.tokenizer, model)
        self.closing_ids = sorted(self.stop_ids | _sentence_end_ids(self.tokenizer))
        self.device = _pick_device(device)
        computing = self._prepare(model, decoder, dtype, threads, memory)
        self.new_decoder, self.codec = computing.new_decoder, computing.codec
        self.rows_at_once = computing.rows_at_once
        self.guesses = Guesses.for_model(self._name, self.rows_at_once - 1) if guesses else NO_GUESSES
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

    def _prepare(
        self, model: Any, decoder: str, dtype: str, threads: int, memory: MemoryConfig | None
    ) -> _Computing:
        """Bring the weights into the form they are computed with."""
        from pipeline.backends.lean_llama import LeanLlama
        from pipeline.backends.model_codec import ModelCodec, find_codec

        bound = find_codec(model, self._name, memory) if memory else None
        fits = self.device.type == "cpu" and LeanLlama.supports(model)
        if decoder == "lean" and not fits:
            raise InputError("the lean decoder takes Llama-shaped models on a processor; use llm.decoder=stock")
        if fits and (decoder == "lean" or (decoder == "auto" and dtype == "auto")):
            lean = LeanLlama(model)
            codec = ModelCodec(lean, bound, memory) if bound and memory else None
            return _Computing((codec or lean).open, lean.forward, 1, codec, lean.rows_at_once)
        chosen = _pick_dtype(dtype, self.device, model.config.hidden_size)
        stock = model.to(self.device, chosen).eval().requires_grad_(False)
        codec = ModelCodec(stock, bound, memory) if bound and memory else None
        new_decoder = codec.open if codec else lambda: StockDecoder(stock)
        return _Computing(new_decoder, forward_in_turn, threads, codec)

    @property
    def _name(self) -> str:
        return Path(self.tokenizer.name_or_path).name

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


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


def _sentence_end_ids(tokenizer: Any) -> frozenset[int]:
    pieces = tokenizer.batch_decode([[one] for one in range(len(tokenizer))])
    return frozenset(
        one for one, text in enumerate(pieces) if text.strip() and not text.strip(SENTENCE_ENDS + " \n")
    )


def _stop_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    configured = model.generation_config.eos_token_id
    ids = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    return frozenset(one for one in ids if one is not None)
