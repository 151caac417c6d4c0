"""Beam search over a language small enough to be written down, and over Whisper's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.backends.whisper_beams import search
from pipeline.backends.whisper_passes import Question, Written

START, END, *WORDS = range(6)
TEA, SEE, TWO, SUGARS = WORDS
# How likely each token is behind a text.
LIKELY: dict[tuple[int, ...], dict[int, float]] = {
    (): {SEE: 0.5, TEA: 0.4, TWO: 0.1},
    (SEE,): {TWO: 0.4, SUGARS: 0.3, END: 0.3},
    (SEE, TWO): {END: 0.6, SUGARS: 0.4},
    (TEA,): {TWO: 0.9, END: 0.1},
    (TEA, TWO): {SUGARS: 0.9, END: 0.1},
    (TEA, TWO, SUGARS): {END: 0.9, TWO: 0.1},
}


class Speaker:
    """Reads texts side by side as the decoder does, and knows how each may go on."""

    def __init__(self) -> None:
        self.texts: list[list[int]] = [[]]
        self.widest = 0

    def read(self, *lines: list[int]) -> list[list[int]]:
        self.widest = max(self.widest, len(lines))
        self.texts = [[*text, *line] for text, line in zip(self.texts, lines, strict=True)]
        return self.texts

    def branch(self, parents: list[int]) -> None:
        self.texts = [self.texts[parent] for parent in parents]

    def predict(self, texts: list[list[int]], _text: list[int]) -> np.ndarray:
        likely = [LIKELY.get(tuple(text[1:]), {END: 1.0}) for text in texts]
        return np.log([[one.get(token, 1e-9) for token in range(6)] for one in likely], dtype=np.float32)


def searched(beams: int, *known: int, limit: int = 9) -> Written:
    speaker: Any = Speaker()
    tokenizer: Any = SimpleNamespace(eot=END)
    written = search(speaker, speaker.predict, Question(tokenizer, [START, *known], len(known), limit), beams)
    assert speaker.widest <= beams
    return max(written, key=lambda text: text.logprob)


def test_a_likely_text_is_found_behind_a_less_likely_word() -> None:
    assert searched(1).ids == [SEE, TWO]
    assert searched(2).ids == [TEA, TWO, SUGARS]


def test_its_certainty_is_the_mean_over_its_tokens_the_end_taken_in() -> None:
    assert searched(2).logprob == pytest.approx(np.log(0.4 * 0.9**3) / 3, abs=1e-5)


def test_known_words_stay_and_count_as_certain() -> None:
    written = searched(2, SEE)
    assert written.ids == [SEE, SUGARS]
    assert written.logprob == pytest.approx(np.log(0.3) / 2, abs=1e-5)


def test_it_ends_at_the_limit() -> None:
    assert searched(2, limit=2).ids == [TEA, TWO]


def test_it_ends_where_it_is_once_nobody_waits() -> None:
    speaker: Any = Speaker()
    tokenizer: Any = SimpleNamespace(eot=END)
    question = Question(tokenizer, [START], 0, 9)
    question.over.set()
    assert len(search(speaker, speaker.predict, question, 2)[0].ids) == 1
