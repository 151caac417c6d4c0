"""Searches a running server for words that were said: what private mode promises not to keep."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.app import Server


def found(root: Any, *words: str, but: Sequence[Any] = ()) -> list[str]:
    """Every text reachable from an object that holds one of the words, ``but`` by way of some objects.

    The code itself is not searched.
    """
    seen = {id(one) for one in but}
    hits: list[str] = []
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | CodeType) or _is_namespace(one):
            continue
        seen.add(id(one))
        text = one.decode("latin-1") if isinstance(one, bytes | bytearray) else one if isinstance(one, str) else ""
        hits += [text for word in words if word.lower() in text.lower()]
        waiting += gc.get_referents(one)
    return hits


def _is_namespace(one: Any) -> bool:
    return isinstance(one, dict) and ("__builtins__" in one or "__build_class__" in one)


def word_pairs(text: str) -> list[str]:
    """Two words in a row are said, one alone may stand in any word list."""
    return [" ".join(pair) for pair in pairwise(text.split())]


def kept_by(server: Server, said: Sequence[str], ours: Sequence[Any]) -> list[str]:
    """What a server and its open sessions still hold of what was said, found by any two words in a row.

    ``ours``: the searcher's own objects, which know the words. Blocks the loop for a second or two.
    """
    from pipeline.backends.loader import Models
    from pipeline.session import Session

    told = server.config.llm.instructions
    pairs = [pair for text in said for pair in word_pairs(text) if pair not in told]
    gc.collect()  # of the sessions before
    sessions = [one for one in gc.get_objects() if type(one) is Session]
    models = [getattr(server.models, model.name) for model in fields(Models)]
    but = (asyncio.get_running_loop(), server.config, *models, said, pairs, *ours)
    return found((server, sessions), *pairs, but=but)
