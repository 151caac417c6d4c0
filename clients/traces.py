"""Searches a running server for words that were said: what private mode promises not to keep."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.app import Server


def found(root: Any, *words: str, but: Sequence[Any] = ()) -> list[str]:
    """Every text reachable from an object that holds one of the words, ``but`` by way of some objects."""
    return [text for text in _texts(root, but) if any(word.lower() in text.lower() for word in words)]


def _texts(root: Any, but: Sequence[Any]) -> Iterator[str]:
    """Every text reachable from an object; the code itself is not searched."""
    seen = {id(one) for one in but}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | CodeType) or _is_namespace(one):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes | bytearray):
            yield one if isinstance(one, str) else one.decode("latin-1")
        waiting += gc.get_referents(one)


def _is_namespace(one: Any) -> bool:
    return isinstance(one, dict) and ("__builtins__" in one or "__build_class__" in one)


def word_pairs(text: str) -> list[str]:
    """Two words in a row are said, one alone may stand in any word list."""
    return [" ".join(pair) for pair in pairwise(text.split())]


def own_texts(server: Server) -> frozenset[str]:
    """What a server holds before anybody has said anything: its page, and what its metrics are called."""
    return frozenset(_texts(server, _no_memory(server)))


def kept_by(server: Server, said: Sequence[str], ours: Sequence[Any], own: Collection[str] = ()) -> list[str]:
    """What a server and its open sessions still hold of what was said, found by any two words in a row.

    ``ours``: the searcher's own objects, which know the words. ``own``: texts that were there before. Blocks the
    loop for a second or two.
    """
    from pipeline.session import Session

    told = server.config.llm.instructions
    pairs = [pair for text in said for pair in word_pairs(text) if pair not in told]
    gc.collect()  # of the sessions before
    sessions = [one for one in gc.get_objects() if type(one) is Session]
    but = (*_no_memory(server), said, pairs, own, *ours)
    return [text for text in found((server, sessions), *pairs, but=but) if text not in own]


def _no_memory(server: Server) -> tuple[Any, ...]:
    """What is not searched: the loop, which leads everywhere, the settings, and the models' word lists."""
    from pipeline.backends.loader import Models

    models = (getattr(server.models, model.name) for model in fields(Models))
    return (asyncio.get_running_loop(), server.config, *models)
