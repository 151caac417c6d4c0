"""A language model as it was loaded: by transformers, or in the lean decoder's form, kept from an earlier start.

Loading with transformers and packing takes ten times as long as mapping what was packed before. So that is kept
(prepared.py), with all else that conversations need to know of the model, and transformers is not even imported.
"""

from __future__ import annotations

import gc
import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.backends import mapped
from pipeline.backends.chat_template import SENTENCE_ENDS
from pipeline.backends.lean_kernels import Weights
from pipeline.backends.lean_llama import LeanLlama
from pipeline.backends.plain_tokenizer import PlainTokenizer
from pipeline.backends.tiles import usable
from pipeline.backends.torch_defaults import DEFAULT_TYPE
from pipeline.ports import InputError
from pipeline.prepared import Form, Prepared

if TYPE_CHECKING:
    from codec.binding import BaseModel

VERSION = 1  # of what is kept
_ABOUT, _EMBEDDING = "about.json", "embedding.npy"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model, a LeanLlama or transformers' own, and what is to be known of it.

    ``stop_ids`` end a reply, ``closing_ids`` a sentence or a reply; ``base`` is what codecs are bound to.
    """

    name: str
    model: Any
    tokenizer: Any
    stop_ids: frozenset[int]
    closing_ids: list[int]
    base: BaseModel

    def write(self, folder: Path) -> None:
        """Write a lean model with a PlainTokenizer."""
        mapped.write(self.model.weights, folder)
        np.save(folder / _EMBEDDING, self.model.embedding)
        self.tokenizer.write(folder)
        about = asdict(replace(self, model=None, tokenizer=None)) | {"stop_ids": sorted(self.stop_ids)}
        (folder / _ABOUT).write_text(json.dumps(about))


def load(source: Path | str, *, lean: bool, prepared: Prepared | None) -> LoadedModel:
    """Load a folder or a hub id; ``lean``: as a LeanLlama if it has the shape, from ``prepared`` or for it.

    Raises InputError when there is no such model or it cannot chat.
    """
    if lean and prepared and isinstance(source, Path) and (kept := prepared.recall(source, _form(), _read)):
        return kept
    stock = _stock(source)
    if not lean or not LeanLlama.supports(stock.model):
        return stock
    packed = replace(stock, model=LeanLlama.of(stock.model))
    del stock
    gc.collect()  # while models are loaded nobody else does
    if prepared is None or not isinstance(source, Path):
        return packed
    if (plain := PlainTokenizer.of(packed.tokenizer)) is None:
        log.warning("%s starts slowly: its tokenizer or its chat template takes transformers", source)
        return packed
    prepared.keep(source, _form(), replace(packed, tokenizer=plain).write)
    return prepared.recall(source, _form(), _read) or packed


def _form() -> Form:
    return Form("lean-tiles" if usable() else "lean", VERSION)


def _read(folder: Path) -> LoadedModel:
    from codec.binding import BaseModel

    about = json.loads((folder / _ABOUT).read_bytes())
    embedding = np.asarray(np.load(folder / _EMBEDDING, mmap_mode="c"))
    return LoadedModel(
        about["name"],
        LeanLlama(mapped.read(Weights, folder), embedding),
        PlainTokenizer.read(folder),
        frozenset(about["stop_ids"]),
        about["closing_ids"],
        BaseModel(**about["base"]),
    )


def _stock(source: Path | str) -> LoadedModel:
    import transformers

    from codec.binding import BaseModel

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(source))
        with DEFAULT_TYPE:
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(str(source), dtype="auto")
    except (OSError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise InputError(
            f"language model {source}: no store entry, folder or hub id of a model ({why})"
        ) from error
    if not tokenizer.chat_template:
        raise InputError(f"language model {source}: its tokenizer has no chat template; use an instruct model")
    name, stop_ids = Path(source).name, _stop_ids(tokenizer, model)
    closing_ids = sorted(stop_ids | _sentence_end_ids(tokenizer))
    return LoadedModel(name, model, tokenizer, stop_ids, closing_ids, BaseModel.of(model, name))


def _sentence_end_ids(tokenizer: Any) -> frozenset[int]:
    pieces = tokenizer.batch_decode([[one] for one in range(len(tokenizer))])
    return frozenset(
        one for one, text in enumerate(pieces) if text.strip() and not text.strip(SENTENCE_ENDS + " \n")
    )


def _stop_ids(tokenizer: Any, model: Any) -> frozenset[int]:
    configured = model.generation_config.eos_token_id
    ids = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])}
    return frozenset(one for one in ids if one is not None)
