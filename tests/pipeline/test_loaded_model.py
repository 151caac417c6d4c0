"""A language model from what an earlier start has kept: the same model, and nothing broken is trusted."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pipeline.backends import mapped
from pipeline.backends.kernels import pack
from pipeline.backends.lean_llama import LeanLlama
from pipeline.backends.loaded_model import VERSION, LoadedModel, load
from pipeline.backends.plain_tokenizer import PlainTokenizer, agree
from pipeline.ports import InputError
from pipeline.prepared import Prepared
from pipeline.store import Store
from tests.codec import tiny
from tests.pipeline.tiny_llama import SHAPE, tiny_llama

IDS = [3, 14, 15, 92, 65, 35]
DIGEST_OF_VERSION_1 = "ac1aa84e"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that can chat, as a folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_llama().save_pretrained(folder)
    tiny.tokenizer(["What is the capital of France ?"]).save_pretrained(folder)
    return folder


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "kept")


def logits(loaded: LoadedModel) -> torch.Tensor:
    made: torch.Tensor = loaded.model.open().forward(IDS, [len(IDS) - 1])
    return made


def test_the_second_start_computes_the_same_bits_as_one_without_a_first(model: Path, prepared: Prepared) -> None:
    cold = load(model, lean=True, prepared=None)
    for _ in range(2):
        loaded = load(model, lean=True, prepared=prepared)
        assert torch.equal(logits(loaded), logits(cold))
        told = loaded.name, loaded.stop_ids, loaded.closing_ids, loaded.base
        assert told == (cold.name, cold.stop_ids, cold.closing_ids, cold.base)
        assert loaded.tokenizer.encode("the capital") == cold.tokenizer.encode("the capital")


@pytest.mark.parametrize("name", ["about.json", "numbers.json", "qkv.values.npy", "tokenizer.json", "chat.json"])
def test_a_kept_file_that_cannot_be_read_is_made_anew(
    model: Path, prepared: Prepared, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = logits(load(model, lean=True, prepared=prepared))
    (path,) = prepared.root.glob(f"*/{name}")
    path.write_bytes(b"?" * path.stat().st_size)
    assert torch.equal(logits(load(model, lean=True, prepared=prepared)), whole)
    assert "is prepared anew" in caplog.text
    assert b"?" * 9 not in path.read_bytes()


def test_a_changed_model_is_not_answered_for_by_what_was_kept(tmp_path: Path, model: Path) -> None:
    prepared, before = Prepared(tmp_path / "other"), load(model, lean=True, prepared=None)
    changed = tmp_path / model.name
    tiny.tokenizer(["What is the capital of France ?"]).save_pretrained(changed)
    tiny_llama().save_pretrained(changed)
    load(changed, lean=True, prepared=prepared)
    torch.manual_seed(7)
    LlamaForCausalLM(LlamaConfig(**SHAPE)).save_pretrained(changed)
    assert not torch.equal(logits(load(changed, lean=True, prepared=prepared)), logits(before))


def test_what_is_mapped_may_be_written_to_without_a_trace_in_the_file(tmp_path: Path) -> None:
    weights = LeanLlama.of(tiny_llama()).weights
    mapped.write(weights, tmp_path)
    first = mapped.read(type(weights), tmp_path)
    first.norm[:] = 0
    assert np.array_equal(mapped.read(type(weights), tmp_path).norm, weights.norm)


def test_a_model_of_another_shape_is_loaded_as_it_is(tmp_path: Path, model: Path, prepared: Prepared) -> None:
    folder = tmp_path / "wide"
    LlamaForCausalLM(LlamaConfig(**SHAPE, attention_bias=True)).save_pretrained(folder)
    tiny.tokenizer(["Hello"]).save_pretrained(folder)
    assert isinstance(load(folder, lean=True, prepared=prepared).model, LlamaForCausalLM)
    assert prepared.bytes == 0


def test_no_such_model_is_an_input_error(tmp_path: Path, prepared: Prepared) -> None:
    with pytest.raises(InputError, match="no store entry, folder or hub id of a model"):
        load(tmp_path / "nowhere", lean=True, prepared=prepared)


def test_how_weights_are_packed_has_not_changed_without_a_new_version() -> None:
    weights = (np.arange(96 * 64, dtype=np.float32).reshape(96, 64) % 97 - 48) / 31
    packed = pack([weights])
    digest = hashlib.sha256(packed.values.tobytes() + packed.scales.tobytes()).hexdigest()[:8]
    assert (VERSION, digest) == (1, DIGEST_OF_VERSION_1)


class Inventive(PlainTokenizer):
    """Says something else than the tokenizer it is made of."""

    def decode(self, *arguments, **options) -> str:
        return super().decode(*arguments, **options).replace("Timer", "timer")


@pytest.mark.models
def test_the_plain_tokenizer_says_what_transformers_says(store: Store) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(store.path("smollm2-135m-instruct")))
    plain = PlainTokenizer.of(tokenizer)
    assert plain is not None
    pieces = [[one] for one in range(len(tokenizer))]
    assert [plain.decode(piece) for piece in pieces] == tokenizer.batch_decode(pieces)
    assert not agree(Inventive(plain.backend_tokenizer, plain.chat_template.upper(), {}), tokenizer)


@pytest.mark.models
def test_a_second_start_does_without_transformers(store: Store) -> None:
    lines = (
        "import sys",
        "from pipeline.backends.loader import load_language_model",
        "from pipeline.config import Config",
        "from pipeline.store import Store",
        "model = load_language_model(Config(), Store.default())",
        "assert model.codec is not None",
        "model.close()",
        "print('transformers' in sys.modules)",
    )
    starts = [subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True) for _ in range(2)]
    assert starts[-1].stdout.split() == [b"False"], starts[-1].stderr.decode()
