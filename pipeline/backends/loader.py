"""Loads every model once a process, from the store, a folder or a hub id, and opens sessions on them."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.causal_lm import CausalLM
from pipeline.backends.chat_endpoint import PREFIX, ChatEndpoint
from pipeline.backends.silero import SileroModel
from pipeline.backends.smart_turn import SmartTurn
from pipeline.backends.torch_defaults import DEFAULT_TYPE
from pipeline.backends.whisper import WhisperRecogniser
from pipeline.config import Config
from pipeline.cores import Cores
from pipeline.interpreter import starting
from pipeline.ports import InputError
from pipeline.store import Store


@dataclass(frozen=True, slots=True)
class Models:
    """The weights that all sessions share, each behind its own worker thread, and the cores that these share."""

    cores: Cores
    vad: SileroModel
    turn_end: SmartTurn
    recogniser: WhisperRecogniser
    language_model: CausalLM | ChatEndpoint

    def close(self) -> None:
        """End the workers."""
        for model in (self.vad, self.turn_end, self.recogniser, self.language_model):
            model.close()


@dataclass(frozen=True, slots=True)
class Loading:
    """Models on their way, in a thread of their own; their cores are there already."""

    cores: Cores
    models: Future[Models]


def begin_loading(config: Config, store: Store) -> Loading:
    """Load what the configuration names; the models come as they do from ``load_models``."""
    cores, pool = Cores(os.cpu_count() or 1), ThreadPoolExecutor(1, "echoic-loading")
    loading = Loading(cores, pool.submit(load_models, config, store, cores))
    pool.shutdown(wait=False)
    # Before whoever waits imports anything else: imports side by side take longer than one after the other.
    import torch  # noqa: F401

    return loading


def load_models(config: Config, store: Store, cores: Cores | None = None) -> Models:
    """Load what the configuration names. Raises StoreError or InputError saying which model and what to do."""
    cores = cores or Cores(os.cpu_count() or 1)
    with starting(), ThreadPoolExecutor(1, "echoic-loading-asr") as pool:
        recogniser = pool.submit(_load_recogniser, config, store, cores)
        models = Models(
            cores=cores,
            vad=SileroModel(),
            turn_end=SmartTurn(
                store.path("smart-turn-v3.2") / "smart-turn-v3.2-cpu.onnx", cores=cores, prepared=store.prepared
            ),
            language_model=load_language_model(config, store, cores),
            recogniser=recogniser.result(),
        )
    if config.memory.mode == "echoic" and isinstance(models.language_model, CausalLM):
        _keep_no_words(models.language_model, models.recogniser)
    return models


def _load_recogniser(config: Config, store: Store, cores: Cores) -> WhisperRecogniser:
    with DEFAULT_TYPE:
        return WhisperRecogniser(
            source_of(config.asr.model, store),
            threads=config.asr.threads,
            language=config.asr.language or None,
            cores=cores,
            prepared=store.prepared,
        )


def _keep_no_words(language_model: CausalLM, recogniser: WhisperRecogniser) -> None:
    """Private mode: tokenizers, which all sessions share, keep the words they have split; these shall not."""
    for tokenizer in (language_model.tokenizer.backend_tokenizer, recogniser.whisper.hf_tokenizer):
        tokenizer.model._resize_cache(0)


def load_language_model(config: Config, store: Store, cores: Cores | None = None) -> CausalLM | ChatEndpoint:
    """Load the language model alone; raises as ``load_models`` does."""
    llm = config.llm
    if llm.model.startswith(PREFIX):
        if config.memory.mode == "echoic":
            raise InputError(f"memory.mode=echoic: {llm.model} is a server, whose states cannot be had; use exact")
        key = os.environ.get("OPENAI_API_KEY", "")
        return ChatEndpoint(llm.model, key=key, temperature=llm.temperature)
    return CausalLM(
        source_of(llm.model, store),
        device=llm.device,
        dtype=llm.dtype,
        decoder=llm.decoder,
        threads=llm.threads or os.cpu_count() or 1,
        cores=cores,
        memory=config.memory,
        guesses=llm.guesses,
        prepared=store.prepared,
    )


def source_of(name: str, store: Store) -> Path | str:
    """A store entry's folder, a local folder, or the name as it is: a hub id."""
    if name in store.names():
        return store.path(name)
    folder = Path(name).expanduser()
    return folder if folder.exists() else name
