"""The embedded model with its codec: states are read as the words come, injected, and overwritten."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from codec.binding import BaseModel
from codec.window import FusedState
from pipeline.backends.causal_conversation import CausalConversation
from pipeline.backends.causal_lm import CausalLM
from pipeline.backends.model_codec import find_codec
from pipeline.config import MemoryConfig
from pipeline.ports import InputError, Message, Prompt, Token
from pipeline.store import Store

SYSTEM = Message("system", "You are a helpful assistant on the phone. Be brief and precise.")
SAID = "My aunt has just moved to Salzburg"
QUESTION = "In which city is my aunt?"

models = pytest.mark.models


@pytest.fixture(scope="module", params=["lean", "stock"])
def lm(request: pytest.FixtureRequest) -> Iterator[CausalLM]:
    source = Store.default().path("smollm2-135m-instruct")
    loaded = CausalLM(source, decoder=request.param, dtype="float32", memory=MemoryConfig(), threads=2)
    yield loaded
    loaded.close()


def asked(text: str, state: FusedState | None = None, *, open: bool = False) -> Prompt:
    return Prompt((SYSTEM, Message("user", text)), open=open, state=state)


async def reply(conversation: CausalConversation, prompt: Prompt, most: int = 12) -> str:
    parts = [part async for part in conversation.generate(prompt, most)]
    return "".join(part.text for part in parts if isinstance(part, Token))


async def state_of(lm: CausalLM, *said: str) -> FusedState:
    """What a memory holds after these turns."""
    memory, conversation = lm.new_memory(), lm.open()
    assert memory is not None
    for text in said:
        await reply(conversation, asked(text), 1)
        assert conversation.exchange is not None
        memory.hear((await conversation.segments(conversation.exchange, 0))[0], 0.0)
        memory.settle(0.0)
    return memory.fused(0.0)


@models
def test_with_an_empty_window_the_logits_are_the_base_models_bit_for_bit(lm: CausalLM) -> None:
    kind = "lean" if "Lean" in type(lm.new_decoder()).__name__ else "stock"
    base = CausalLM(Store.default().path("smollm2-135m-instruct"), decoder=kind, dtype="float32", threads=2)
    ids = base.prompt_ids(asked(QUESTION))
    with_codec, without = lm.new_decoder(), base.new_decoder()
    with_codec.inject(None)
    for piece in (ids[:9], ids[9:], [42]):
        wanted = list(range(len(piece)))
        assert torch.equal(with_codec.forward(piece, wanted), without.forward(piece, wanted))
    base.close()


@models
async def test_what_was_said_before_is_known_by_its_state_alone(lm: CausalLM) -> None:
    state = await state_of(lm, SAID)
    assert "Salzburg" in await reply(lm.open(), asked(QUESTION, state))
    assert "Salzburg" not in await reply(lm.open(), asked(QUESTION))


@models
async def test_reading_ahead_under_a_state_changes_no_token(lm: CausalLM) -> None:
    state, ahead = await state_of(lm, SAID), lm.open()
    await reply(ahead, asked(SAID))
    for words in ("In which", "In which city is"):
        await ahead.prefill(asked(words, state, open=True))
    assert await reply(ahead, asked(QUESTION, state)) == await reply(lm.open(), asked(QUESTION, state))


@models
async def test_a_state_that_is_gone_changes_no_token_any_more(lm: CausalLM) -> None:
    conversation = lm.open()
    await reply(conversation, asked(QUESTION, await state_of(lm, SAID)))
    assert await reply(conversation, asked(QUESTION)) == await reply(lm.open(), asked(QUESTION))


@models
async def test_words_read_as_they_come_make_the_segment_that_the_whole_makes(lm: CausalLM) -> None:
    conversation = lm.open()
    for count in (2, 4, 5, 7):
        read = await conversation.prefill(asked(" ".join(SAID.split()[:count]) + " and then", open=True))
    whole = await lm.open().prefill(asked(SAID + " and then", open=True))
    assert [segment.tokens for segment in read.said] == [segment.tokens for segment in whole.said]
    torch.testing.assert_close(read.said[0].slots, whole.said[0].slots, atol=2 * whole.said[0].scale, rtol=0)


@models
async def test_of_a_reply_as_many_tokens_are_remembered_as_were_heard(lm: CausalLM) -> None:
    conversation = lm.open()
    await reply(conversation, asked(QUESTION))
    assert conversation.exchange is not None
    message, heard = await conversation.segments(conversation.exchange, 5)
    assert message[0].tokens == len(lm.tokenizer.encode(QUESTION.rstrip("?")))
    assert heard[0].tokens == 5


@models
async def test_what_was_forgotten_is_in_no_tensor_of_the_conversation(lm: CausalLM) -> None:
    conversation, fresh = lm.open(), lm.open()
    await reply(conversation, asked(SAID, await state_of(lm, QUESTION)))
    await conversation.prefill(asked("And my uncle", open=True))
    await conversation.forget()
    await fresh.prefill(asked("And my uncle", open=True))
    await fresh.forget()
    assert conversation.cached_ids == fresh.cached_ids
    assert SAID.split()[-1] not in lm.tokenizer.decode(conversation.cached_ids)
    for ours, theirs in zip(memory_of(conversation), memory_of(fresh), strict=True):
        assert torch.equal(ours, theirs)


def memory_of(conversation: CausalConversation) -> list[torch.Tensor]:
    """All memory that the conversation holds of its own: the whole storage of each tensor, views or not."""
    found: dict[int, torch.Tensor] = {}
    lm = conversation._lm
    shared = {id(lm), id(lm.new_decoder), id(getattr(conversation._sequence.decoder, "_model", None))}
    seen: set[int] = shared | {id(getattr(conversation._sequence.decoder, "_injector", None))}
    waiting: list[Any] = [conversation]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            one = torch.from_numpy(one)
        if isinstance(one, torch.Tensor):
            storage = one.untyped_storage()
            found[storage.data_ptr()] = one.new_empty(0).set_(storage)
        waiting += gc.get_referents(one)
    return list(found.values())


def test_a_model_without_a_codec_remembers_by_text_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert find_codec(BaseModel.of(a_model(), "a-model"), MemoryConfig()) is None
    assert "replies remember by text alone" in caplog.text
    assert len(caplog.records) == 1


def test_private_mode_without_a_codec_for_the_model_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"memory\.mode=echoic: no codec .* train one with `echoic codec train`"):
        find_codec(BaseModel.of(a_model(), "a-model"), MemoryConfig("echoic"))


def test_a_codec_of_another_model_is_refused_with_both_sides_named() -> None:
    path = Path(__file__).parents[2] / "codec" / "weights" / "smollm2-135m-instruct.safetensors"
    with pytest.raises(InputError, match=r"trained on smollm2-135m-instruct .* the model is a-model"):
        find_codec(BaseModel.of(a_model(), "a-model"), MemoryConfig(codec=str(path)))


def a_model() -> LlamaForCausalLM:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, num_key_value_heads=2, **sizes))
