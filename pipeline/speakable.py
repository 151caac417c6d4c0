"""Speakable: from a model's text to the text that is said. Show-text is not say-text.

Markdown marks, emoji, code blocks, link targets, HTML tags and ``<think>`` blocks never reach the voice.
"""

from __future__ import annotations

import re
import unicodedata

_RUN_MARKS = "*_`~#-+"  # a run of one of these is one mark: "**", "###", "```"
_CONSTRUCTS = ("](", "][", "![", "[^")
_URL_STARTS = ("https://", "http://", "www.")
_URL_STOPS = "<>[]()|\"'`"
_THOUGHTS = ("think", "thinking", "reasoning")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,100}>?|</?")
_DROPPED = "[]\\•‣◦"
_EMOJI_PARTS = "\ufe0e\ufe0f\u20e3"  # variation selectors, keycap
_NON_JOINER = "\u200c"  # invisible, but part of how some languages spell
_TRAILING = ".,;:!?…"
_SPAN_MEMORY = 400  # characters of a hidden span that are kept to find its end


class Speakable:
    """A filter fed with the model's text in any pieces; what comes out is safe to read aloud.

    It looks at one character at a time, so the pieces cannot matter: the outputs joined are the output of the
    whole. A character waits only while it may still belong to a mark, a tag or a URL. White space is collapsed;
    a line break stays one, because it ends a phrase.
    """

    def __init__(self) -> None:
        self._held = ""  # the beginning of a mark, a tag or a URL: undecided
        self._closer = ""  # what ends the span that is being hidden; "" outside of one
        self._span = ""  # the last characters of that span
        self._last = "\n"  # the last character that was said
        self._line_is_empty = True  # nothing of this line was said yet

    def push(self, text: str) -> str:
        """More of the model's text; returns what can be said of it by now."""
        return "".join(self._step(character) for character in text)

    def finish(self) -> str:
        """The text is over: returns what was still undecided. Spans left open stay hidden."""
        said = ""
        while self._held:
            said += self._settle(following="")
        return said

    def _step(self, character: str) -> str:
        said = ""
        while self._held:
            if self._grows(self._held + character):
                self._held += character
                return said
            said += self._settle(following=character)
        return said + self._take(character)

    def _take(self, character: str) -> str:
        if self._closer:
            self._hide(character)
        elif self._grows(character):
            self._held = character
        else:
            return self._say(character)
        return ""

    def _grows(self, text: str) -> bool:
        """Whether this is, or may become, one mark, tag or URL."""
        if text[0] in _RUN_MARKS:
            return text == text[0] * len(text)
        if text[0] == "<":
            return bool(_TAG.fullmatch(text)) or _is_url(text[1:])
        if any(construct.startswith(text) for construct in _CONSTRUCTS):
            return True
        return not self._last.isalnum() and _is_url(text)

    def _settle(self, following: str) -> str:
        """Say what was held, now that it is known not to grow; ``following`` is the next character or ""."""
        held, self._held = self._held, ""
        if held[0] in _RUN_MARKS:
            return self._say_all(self._mark(held, following))
        if held[0] == "<":
            return self._tag(held)
        if held in _CONSTRUCTS:
            self._closer = {"](": ")", "][": "]", "[^": "]"}.get(held, "")
            return ""
        return self._say_all(_site(held) if _is_whole_url(held) else held)

    def _mark(self, run: str, following: str) -> str:
        """What a run of one mark sounds like between its neighbours: mostly nothing."""
        between_digits = self._last.isdigit() and following.isdigit()
        spaced = self._last == " " and following == " " and not self._line_is_empty
        between_letters = self._last.isalnum() and following.isalnum()
        match run[0]:
            case "`" if len(run) >= 3:
                self._closer = "```"
            case "*" if len(run) == 1 and (between_digits or spaced):
                return " times "
            case "_" if between_letters:
                return " "
            case "~" if len(run) == 1 and following.isdigit():
                return "about "
            case "#" if len(run) == 1 and following.isdigit():
                return "number "
            case "#" if len(run) == 1 and self._last.isalpha():
                return " sharp"
            case "-" | "+" if self._line_is_empty and (len(run) > 1 or following.isspace()):
                return ""
            case "-" if len(run) > 1:
                return " — "
            case "-" | "+":
                return run
        return ""

    def _tag(self, tag: str) -> str:
        """A tag is silent, a thought hides what follows it, and "x < 3" is no tag at all."""
        inside = tag[1:].removesuffix(">")
        if _is_whole_url(inside):
            return self._say_all(_site(inside))
        if not tag.endswith(">"):
            return self._say("<") + self.push(inside)
        if "@" in inside:
            return self.push(inside)
        name = inside.strip("/ ").split(" ")[0].lower()
        if name in _THOUGHTS and not inside.startswith("/"):
            self._closer = f"</{name}>"
        return self._say_all("\n" if name in ("br", "p", "li") else "")

    def _hide(self, character: str) -> None:
        self._span = (self._span + character)[-_SPAN_MEMORY:]
        closed = self._span.lower().endswith(self._closer)
        if self._closer == ")":
            # A target may hold brackets of its own, but never a line break.
            closed = self._span.count(")") > self._span.count("(") or character == "\n"
        if closed:
            self._closer = self._span = ""

    def _say_all(self, text: str) -> str:
        return "".join(self._say(character) for character in text)

    def _say(self, character: str) -> str:
        if character.isspace():
            return self._space(character)
        if character == "|":
            return self._space(" ")
        starts_quote = character == ">" and self._line_is_empty
        if starts_quote or character in _DROPPED or _is_silent(character):
            return ""
        self._line_is_empty = False
        self._last = character
        return character

    def _space(self, character: str) -> str:
        """The first space and the first line break of a run of white space are kept, both as soon as they come."""
        kept = "\n" if character in "\n\r\v\f\x85\u2028\u2029" else " "
        if kept == "\n":
            self._line_is_empty = True
        if self._last == "\n" or self._last == kept:
            return ""
        self._last = kept
        return kept


def _is_url(text: str) -> bool:
    """Whether the text is a URL so far, or the beginning of its scheme."""
    lower = text.lower()
    if any(start.startswith(lower) for start in _URL_STARTS):
        return True
    return _is_whole_url(text) and not any(c.isspace() or c in _URL_STOPS for c in text)


def _is_whole_url(text: str) -> bool:
    return text.lower().startswith(_URL_STARTS)


def _site(url: str) -> str:
    """A URL as one would say it: the site alone, and the punctuation that belongs to the sentence."""
    address = url.rstrip(_TRAILING)
    host = re.sub(r"^(https?://)?(www\.)?", "", address, flags=re.IGNORECASE)
    return re.split(r"[^\w.-]|_", host, maxsplit=1)[0] + url[len(address) :]


def _is_silent(character: str) -> bool:
    """Whether this is part of an emoji, a dingbat, an arrow or a character without a shape."""
    code, category = ord(character), unicodedata.category(character)
    if character in _EMOJI_PARTS or 0x1F3FB <= code <= 0x1F3FF:
        return True
    if category in ("Cc", "Cf", "Cs"):
        return character != _NON_JOINER
    # Below U+2190 are signs that are read (the degree sign, TM); from there on come arrows and pictures.
    return code >= 0x2190 and (category == "So" or code <= 0x21FF)
