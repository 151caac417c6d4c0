"""Any decoder-only transformers model with a chat template, with a KV cache that only ever does new work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.backends.bfloat16 import bfloat16_pays
from pipeline.backends.chat_template import SENTENCE_ENDS, ChatTemplate
from pipeline.backends.decoders import Decoder, StockDecoder
from pipeline.backends.last_message import LastMessage
from pipeline.backends.tool_calls import ToolCallReader, forced_beginning
from pipeline.config import MemoryConfig
from pipeline.cores import Cores
from pipeline.ports import Exchange, InputError, Prefill, Prompt, PromptRead, StageError, Token, ToolCall
from pipeline.worker import Worker

if TYPE_CHECKING:
    import torch

    from codec.memory import EchoicMemory
    from codec.window import FusedState, SegmentState
    from pipeline.backends.model_codec import ModelCodec

# Tokens of an open message that may still change when more text follows: a tokenizer may merge across the
# border. One is not enough where a word is spelled in pieces.
UNSETTLED_TOKENS = 2
# What one job reads of a long prompt: other conversations' tokens wait for this much, and not for all of it.
READ_AT_ONCE = 96


class PromptTokens(NamedTuple):
    """A prompt's token ids; of an open one only those that cannot change any more.

    ``begin``: how many stand before the last message's words. ``spoken``: how many there are up to the user's
    last word, without what closes the sentence, the message or the prompt; None where that message is another's.
    """

    ids: list[int]
    begin: int
    spoken: int | None


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
    ) -> None:
        """Load the weights. Raises InputError when there is no such model or it cannot chat.

        ``decoder``: "lean" (int8, Llama-shaped models on a processor), "stock", or "auto" for lean where it fits.
        ``memory``: what to remember turns by; None for text alone.
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
        self.new_decoder, self.codec, busy = self._prepare(model, decoder, dtype, threads, memory)
        self.worker = Worker("llm", cores if self.device.type == "cpu" else None, busy)

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
        begin = min(_common(words, self._encode(spoken[0])), len(words) - 1)
        settled = words[:-UNSETTLED_TOKENS] if prompt.messages[-1].text else words[:-1]
        return PromptTokens(settled if prompt.open else whole, begin, len(words))

    def close(self) -> None:
        """End the worker; the weights go when nothing refers to them."""
        self.worker.close()

    def _prepare(
        self, model: Any, decoder: str, dtype: str, threads: int, memory: MemoryConfig | None
    ) -> tuple[Callable[[], Decoder], ModelCodec | None, int]:
        """Bring the weights into the form they are computed with.

        Returns what makes a conversation's decoder, the codec, and how many cores one is busy on.
        """
        from pipeline.backends.lean_llama import LeanLlama
        from pipeline.backends.model_codec import ModelCodec, find_codec

        bound = find_codec(model, Path(self.tokenizer.name_or_path).name, memory) if memory else None
        fits = self.device.type == "cpu" and LeanLlama.supports(model)
        if decoder == "lean" and not fits:
            raise InputError("the lean decoder takes Llama-shaped models on a processor; use llm.decoder=stock")
        if fits and (decoder == "lean" or (decoder == "auto" and dtype == "auto")):
            lean = LeanLlama(model)
            codec = ModelCodec(lean, bound, memory) if bound and memory else None
            return (codec or lean).open, codec, 1
        chosen = _pick_dtype(dtype, self.device, model.config.hidden_size)
        stock = model.to(self.device, chosen).eval().requires_grad_(False)
        codec = ModelCodec(stock, bound, memory) if bound and memory else None
        return (codec.open if codec else lambda: StockDecoder(stock)), codec, threads

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


class CausalConversation:
    """The KV cache of one conversation and the tokens it stands for.

    Every call is told the whole prompt; what the cache shares with it as a prefix is kept, the rest is cropped,
    and only the difference is computed. Dropping a draft, reopening a turn and adopting a draft are all this
    one rule. A state is part of the rule: tokens from the last message on are kept only under the state they were
    read with, and tokens before it are read without any.
    """

    def __init__(self, lm: CausalLM) -> None:
        self._lm = lm
        self._decoder: Decoder | None = lm.new_decoder()
        self._ids: list[int] = []
        self._text_done: float | None = None
        self._message = LastMessage()

    @property
    def cached_ids(self) -> tuple[int, ...]:
        """The tokens whose keys and values are held."""
        return tuple(self._ids)

    async def prefill(self, prompt: Prompt) -> Prefill:
        """Bring the cache to the settled part of the prompt. Raises StageError if the model fails."""
        done: Prefill
        done, more = await self._lm.worker.run(self._guarded, self._prefill, prompt)
        while more:
            last, more = await self._lm.worker.run(self._guarded, self._prefill, prompt)
            done = Prefill(done.kept, done.cropped + last.cropped, done.computed + last.computed, last.said)
        return done

    async def generate(
        self, prompt: Prompt, max_tokens: int
    ) -> AsyncGenerator[Token | ToolCall | PromptRead, None]:
        """Stream the greedy reply, one worker job a token, so that conversations take turns.

        The cache holds the prompt and the reply afterwards. Raises StageError if the model fails, or writes a
        call that is none.
        """
        run = self._lm.worker.run
        reader = ToolCallReader(prompt.tools, forced_beginning(prompt.must_call, prompt.tools))
        first, read = await run(self._guarded, self._begin, prompt)
        while first is None:
            first, _ = await run(self._guarded, self._begin, prompt)
        yield read
        next_id: int = first
        reply: list[int] = []
        shown = ""
        while next_id not in self._lm.stop_ids and len(reply) < max_tokens:
            reply.append(next_id)
            text = self._lm.tokenizer.decode(reply, skip_special_tokens=True)
            added = "" if text.endswith("\ufffd") else text[len(shown) :]
            shown += added
            words, calls = reader.push(added)
            yield Token(next_id, words)
            for call in calls:
                yield call
            if calls and prompt.must_call:
                return
            next_id = await run(self._guarded, self._step, next_id)
        words, calls = reader.finish()
        if words:
            yield Token(next_id, words)
        for call in calls:
            yield call

    @property
    def text_done(self) -> float | None:
        """The probability that a sentence ends where the user stopped; it costs nothing to know."""
        return self._text_done

    @property
    def exchange(self) -> Exchange | None:
        """The hidden states of the last message and of the reply so far."""
        return self._message.exchange()

    async def segments(
        self, exchange: Exchange, reply_tokens: int
    ) -> tuple[tuple[SegmentState, ...], tuple[SegmentState, ...]]:
        """The message as segments, and the first so many tokens of the reply."""
        run, codec = self._lm.worker.run, self._lm.codec
        if codec is None:
            return (), ()
        return await run(codec.segments, exchange.words), await run(codec.segments, exchange.reply[:reply_tokens])

    async def forget(self) -> None:
        """Overwrite the last message, the reply, the state they were read with, and what was made of them."""
        await self._lm.worker.run(self._guarded, self._forget)

    async def close(self) -> None:
        """Free the cache."""
        self._decoder, self._ids, self._message = None, [], LastMessage()

    def _guarded(self, job: Any, *args: Any) -> Any:
        try:
            return job(*args)
        except Exception as error:
            # The cache may be half written: what it holds is only known to be right when it is empty.
            self._decoder, self._ids, self._message = self._lm.new_decoder(), [], LastMessage()
            raise StageError("language model", f"{type(error).__name__}: {error}") from error

    def _begin(self, prompt: Prompt) -> tuple[int | None, PromptRead]:
        """The first token of the reply; None after a part of a long prompt, of which there is more to read.

        On the way it learns how likely a sentence was to end where the user stopped.
        """
        ids, begin, spoken = self._lm.tokens(prompt)
        words_end = len(ids) if spoken is None else spoken
        last_word = words_end - 1
        self._enter_message(begin, prompt.state)
        kept = self._keep_prefix(ids[:last_word])
        if last_word - kept > READ_AT_ONCE or (kept < last_word and self._is_before_message(kept)):
            self._read_part(ids[:last_word], kept)
            return None, PromptRead(len(ids), kept)
        logits = self._forward(ids[kept:], [last_word - kept, len(ids) - 1 - kept])
        self._message.words, self._message.reply_at = words_end - begin, len(ids) - begin
        ends = float(logits[0].softmax(-1)[self._lm.closing_ids].sum())
        self._text_done = None if spoken is None else ends
        return int(logits[1].argmax()), PromptRead(len(ids), kept)

    def _prefill(self, prompt: Prompt) -> tuple[Prefill, bool]:
        """Read a part of the settled prompt; whether there is more of it to read."""
        ids, begin, _ = self._lm.tokens(prompt)
        held = len(self._ids)
        self._enter_message(begin, prompt.state)
        kept = self._keep_prefix(ids)
        read = self._read_part(ids, kept) if kept < len(ids) else kept
        said = self._message.said(self._lm.codec) if prompt.open and read == len(ids) else ()
        return Prefill(kept, held - kept, read - kept, said), read < len(ids)

    def _forget(self) -> None:
        self._message.wipe()
        if self._decoder is not None:
            self._keep_prefix(self._ids[: self._message.begin])
            self._decoder.wipe()
        self._message, self._text_done = LastMessage(self._message.begin), None

    def _enter_message(self, begin: int, state: FusedState | None) -> None:
        """The prompt's last message begins behind so many tokens and is read with this state."""
        before, codec = self._message, self._lm.codec
        if (before.begin, before.state) == (begin, state):
            return
        # Where the state ends the words are the same, but they were read as something else.
        unread = min(begin, before.begin if before.state is not None else begin)
        self._keep_prefix(self._ids[:unread])
        self._message = LastMessage(begin, state, codec.prepare(state) if codec else None)
        if self._decoder is not None:
            self._decoder.inject(self._message.prepared)

    def _keep_prefix(self, ids: list[int]) -> int:
        """Crop the cache to what it shares with ``ids`` and return how many tokens that is."""
        kept = _common(self._ids, ids)
        if kept < len(self._ids) and self._decoder is not None:
            self._decoder.crop(kept)
            del self._ids[kept:]
            self._message.crop(kept)
        return kept

    def _is_before_message(self, kept: int) -> bool:
        """Whether what comes next is read without the state that the last message is read with."""
        return self._message.prepared is not None and kept < self._message.begin

    def _read_part(self, ids: list[int], kept: int) -> int:
        """Read on, a part at most and not past where the last message begins; returns how many are held."""
        plain = self._is_before_message(kept)
        until = min(kept + READ_AT_ONCE, len(ids), self._message.begin if plain else len(ids))
        if plain and self._decoder is not None:
            self._decoder.inject(None)
        self._forward(ids[kept:until], [until - kept - 1])
        if plain and self._decoder is not None:
            self._decoder.inject(self._message.prepared)
        return until

    def _step(self, token: int) -> int:
        return int(self._forward([token], [0])[0].argmax())

    def _forward(self, ids: list[int], wanted: list[int]) -> torch.Tensor:
        """Read new tokens; returns the logits ``[len(wanted), vocabulary]`` after the wanted ones."""
        if self._decoder is None:
            raise StageError("language model", "the conversation is closed")
        logits = self._decoder.forward(ids, wanted)
        self._message.read(len(self._ids), self._decoder.states)
        self._ids.extend(ids)
        return logits


def _common(ours: list[int], theirs: list[int]) -> int:
    """How many tokens two sequences begin with alike."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))


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
