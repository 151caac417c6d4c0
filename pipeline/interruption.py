"""What speech over a reply means: a backchannel, a stop word, or somebody taking the floor. Pure."""

from __future__ import annotations

import re
from enum import Enum

_BACKCHANNELS = frozenset(
    "uh-huh uhuh uh huh mm mhm mm-hmm mmhmm mmm hmm hm yeah yep yup yes ok okay right sure aha ah oh i see "
    "alright cool great nice good wow really".split()
)

_STOP_WORDS = frozenset("stop wait hold pause quiet silence cancel enough shush shut halt hang".split())
_MOST_BACKCHANNEL_WORDS = 3
_MOST_STOP_COMMAND_WORDS = 4
_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")


class Interruption(Enum):
    """What was heard over a reply."""

    NOTHING = "nothing"
    BACKCHANNEL = "backchannel"
    STOP = "stop"
    WORDS = "words"


def classify(text: str) -> Interruption:
    """What a transcript, partial or final, of speech over a reply means."""
    words = _WORD.findall(text.lower())
    if not words:
        return Interruption.NOTHING
    if len(words) <= _MOST_STOP_COMMAND_WORDS and any(word in _STOP_WORDS for word in words):
        return Interruption.STOP
    if len(words) <= _MOST_BACKCHANNEL_WORDS and all(word in _BACKCHANNELS for word in words):
        return Interruption.BACKCHANNEL
    return Interruption.WORDS
