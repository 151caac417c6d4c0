"""Endpointing: how long a silence must be before the turn is over, given what the evidence says. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pipeline.config import TurnConfig

# Who has talked for so long tells something rather than asks: what sounds like a request may be followed by more.
MONOLOGUE_WORDS = 16


class Ending(Enum):
    """What the words at the end of a transcript promise."""

    REQUEST = "request"  # a question or a command: an answer is wanted now
    STATEMENT = "statement"  # complete, but people go on after statements
    OPEN = "open"  # "and", "um", "to the": more is coming
    DICTATION = "dictation"  # digits, letters, an e-mail address being spelled


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at a pause: the words, the sound's verdict and the language model's.

    ``sound_done`` is Smart Turn's probability; ``text_done`` is the language model's probability that a
    sentence ends after these words. None: not known yet, or the model cannot tell.
    """

    text: str
    sound_done: float | None = None
    text_done: float | None = None


_OPEN_WORDS = frozenset(
    "and or but so because if when while then that which who with without to of for from in on at by about into "
    "than as the a an my your his her its our their this these those is are was were am be been have has had do "
    "does did will would can could should may might must please um uh uhm umm er erm hmm like um, well also very "
    "just i we they he she".split()
)
# Words that leave a question complete although a statement would go on: "what is it like", "where is it from".
_STRANDED_AFTER_WH = frozenset("like about for from in on at to of with is are was were do does did".split())
_WH_WORDS = frozenset("what what's who who's where where's when how how's why which whose whom".split())
_ASKING = _WH_WORDS | frozenset(
    "is are was were am do does did can could will would shall should may might have has isn't aren't don't "
    "doesn't can't couldn't won't wouldn't".split()
)
_COMMANDS = frozenset(
    "add answer ask bring buy call cancel change check choose clear close continue count delete describe do draw "
    "drop explain find finish get give go help hold keep leave let list listen look lower make move name open "
    "order pause pick play please press print put read remind remove repeat reply reserve reset resume say save "
    "search send set show sing skip speak spell start stop suggest switch take talk teach tell text translate "
    "try turn tweet use wait wake write".split()
)
_WANTING = re.compile(r"\bi(?:'d| would) like\b|\bi (?:want|need)\b|\bmay i\b|\b(?:can|could) (?:i|you|we)\b")
_NUMBER_WORDS = frozenset(
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred double".split()
)
_SPELLED = re.compile(r"(?:\b[a-z]\b[ -]?){2,}$")
# An e-mail address is over when its domain has been said.
_OPEN_ADDRESS = re.compile(
    r"\b(?:e-?mail|address)\b.* is\b(?!.*(?:\bdot |\.)\w{2,}$)|(?:@| dot| dash| underscore)$"
)
_LONG_NUMBER = re.compile(r"(?:\d[ ,.-]?){4,}$")
_WORD = re.compile(r"[\w'@]+(?:[.-]\w+)*")


def ending_of(text: str) -> Ending:
    """What the end of the transcript promises."""
    words = _WORD.findall(text.lower())
    if not words:
        return Ending.OPEN
    if _is_dictation(text.lower().rstrip(" .,?!-"), words):
        return Ending.DICTATION
    clause = _last_clause(text)
    asks_wh = any(word in _WH_WORDS for word in clause)
    stranded = asks_wh and words[-1] in _STRANDED_AFTER_WH and len(clause) > 2
    if words[-1] in _OPEN_WORDS and not stranded:
        return Ending.OPEN
    if len(words) > MONOLOGUE_WORDS:
        return Ending.STATEMENT
    asks = asks_wh or clause[0] in _ASKING or text.rstrip().endswith("?")
    wants = clause[0] in _COMMANDS or bool(_WANTING.search(text.lower()))
    return Ending.REQUEST if asks or wants else Ending.STATEMENT


def wait_ms(evidence: Evidence, config: TurnConfig) -> float:
    """Milliseconds of silence after which this turn is over; never above the longest wait of its kind."""
    if config.fixed_wait_ms:
        return config.fixed_wait_ms
    ending = ending_of(evidence.text)
    if ending is Ending.DICTATION:
        return config.dictation_wait_ms
    sound = 0.5 if evidence.sound_done is None else evidence.sound_done
    if ending is Ending.OPEN:
        return config.longest_wait_ms if sound < config.sure else config.undecided_wait_ms
    text = 1.0 if evidence.text_done is None else evidence.text_done
    sure = sound >= config.sure
    if text < (config.unlikely_text if sure else config.doubtful_text):
        return config.statement_wait_ms if sure else config.longest_wait_ms
    if sound < 0.5:
        return _between(sound * 2, config.longest_wait_ms, config.undecided_wait_ms)
    if ending is Ending.STATEMENT:
        return config.statement_wait_ms
    share = min(1.0, (sound - 0.5) / (config.sure - 0.5))
    return _between(share**2, config.undecided_wait_ms, config.shortest_wait_ms)


def _between(share: float, start: float, end: float) -> float:
    return start + (end - start) * share


def _last_clause(text: str) -> list[str]:
    """The words of the last sentence, without a name called or a filler in front of it. Never empty."""
    sentence = [part for part in re.split(r"[.!?]+\s", text.lower()) if _WORD.search(part)][-1]
    after_comma = _WORD.findall(sentence.split(",")[-1])
    if after_comma and after_comma[0] in _ASKING | _COMMANDS:
        return after_comma
    return _WORD.findall(sentence)


def _is_dictation(text: str, words: list[str]) -> bool:
    digits = sum(word in _NUMBER_WORDS or word.isdigit() for word in words[-3:])
    return digits >= 3 or bool(_LONG_NUMBER.search(text) or _SPELLED.search(text) or _OPEN_ADDRESS.search(text))
