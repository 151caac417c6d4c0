"""What speech over a reply means: a backchannel, a stop word, or somebody taking the floor. Pure."""

from __future__ import annotations

import re
from enum import Enum

from pipeline.novelty import novel_words

_BACKCHANNELS = frozenset(
    "uh-huh uhuh uh huh mm mhm mm-hmm mmhmm mmm hmm hm yeah yep yup yes ok okay right sure aha ah oh i see "
    "alright cool great nice good wow really".split()
)

_STOP_WORDS = frozenset("stop wait hold pause quiet silence cancel enough shush shut halt hang".split())
_MOST_BACKCHANNEL_WORDS = 3
_MOST_STOP_COMMAND_WORDS = 4
_MOST_NOVEL_IN_ECHO = 0.5  # of the words heard
_FEWEST_NOVEL_WORDS = 3
_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")


class Interruption(Enum):
    """What was heard over a reply."""

    NOTHING = "nothing"
    BACKCHANNEL = "backchannel"
    STOP = "stop"
    WORDS = "words"


def classify(text: str, playing: str = "") -> Interruption:
    """What a transcript, partial or final, of speech over a reply means.

    ``playing`` is what the reply has said so far. Words that are mostly its own are its echo, and only those that
    are new count: a single new word, unless it is a stop word, is the recogniser's mishearing.
    """
    words = _WORD.findall(text.lower())
    novel = novel_words(text, playing) if playing else words
    echoes = len(novel) <= len(words) * _MOST_NOVEL_IN_ECHO
    return _classify_echo(novel) if echoes else _classify(words)


def _classify_echo(novel: list[str]) -> Interruption:
    kind = _classify(novel)
    return kind if kind is Interruption.STOP or len(novel) >= _FEWEST_NOVEL_WORDS else Interruption.NOTHING


def _classify(words: list[str]) -> Interruption:
    if not words:
        return Interruption.NOTHING
    if len(words) <= _MOST_STOP_COMMAND_WORDS and any(word in _STOP_WORDS for word in words):
        return Interruption.STOP
    if len(words) <= _MOST_BACKCHANNEL_WORDS and all(word in _BACKCHANNELS for word in words):
        return Interruption.BACKCHANNEL
    return Interruption.WORDS
