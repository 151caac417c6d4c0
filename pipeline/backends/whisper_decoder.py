"""Whisper's greedy decoder with a guess: what the last pass over a growing sound heard, most of it still right.

A token costs a reading of all weights, whether it is chosen or known, so a decoder that goes one by one takes
as long for words that it has heard before as for new ones. Here the guess goes through all layers in one reading.
Each of its tokens is kept if it is the one that would have been chosen there. From the first that is not, decoding
goes on along what is left of the guess behind it, or what stood behind the same two tokens before: in the guess,
or in a text that starts over.

This is speculative decoding (Leviathan et al. 2023) with the previous hypothesis as the draft. Since a token's
result does not depend on how many were computed with it (kernels.py), the text is the same, bit for bit, whatever
the guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.backends.bfloat16_tiles import has_tiles
from pipeline.backends.kernels import Floats
from pipeline.backends.whisper_beams import search
from pipeline.backends.whisper_hearing import USUAL_FRAMES, Ear, TiledEar
from pipeline.backends.whisper_kernels import predict
from pipeline.backends.whisper_passes import Passes, Question, Written
from pipeline.backends.whisper_weights import decoding
from pipeline.prepared import Prepared

# A token in a pass costs a third of a pass of its own.
LOOK_AHEAD = 6


class WhisperDecoder:
    """One model's decoder; may be used from several threads."""

    def __init__(self, folder: Path, threads: int, prepared: Prepared | None = None) -> None:
        """Load a CTranslate2 model. Raises UnknownWeightsError where it is of another kind.

        ``threads``: how many torch takes for a caller, where it computes. ``prepared``: where the packed weights
        are kept for the next start.
        """
        loaded, config = decoding(folder, prepared), json.loads((folder / "config.json").read_text())
        self._weights = loaded.weights
        cross = loaded.cross_weight, loaded.cross_bias, loaded.weights.heads
        self._ear = TiledEar(*cross) if has_tiles() else Ear(*cross, threads)
        self._never: list[int] = config.get("suppress_ids", [])
        self._never_first: list[int] = config.get("suppress_ids_begin", [])

    def warm_up(self) -> None:
        """Have the loops compiled, or fetched from where an earlier process left them."""
        heard = self._ear.hear(np.zeros((USUAL_FRAMES, self._weights.positions.shape[1]), np.float32))
        predict(Passes(self._weights, heard, 1).read([0]), self._weights)

    def takes(self, question: Question) -> bool:
        """Whether there is a text to write, and as many positions as it may take."""
        new = question.limit - question.known
        return 0 < new <= len(self._weights.positions) - len(question.start)

    def write(self, encoded: Floats, question: Question) -> Written:
        """The most likely text of ``encoded [frames, width]``, token by token."""
        ids, total, start = question.text, 0.0, question.start
        draft = question.guess[: question.limit - question.known]
        passes = self._passes(encoded, question)
        x = passes.read([*start, *draft])[len(start) - 1 :]
        for chosen, logprob in self._choices(passes, x, draft, question):
            total += logprob
            if chosen != question.tokenizer.eot:
                ids.append(chosen)
            if chosen == question.tokenizer.eot or len(ids) == question.limit:
                break
        return Written(ids, total / max(1, len(ids)))

    def search(self, encoded: Floats, question: Question, beams: int) -> list[Written]:
        """The texts that so many lines lead to, going on side by side, whatever the guess."""
        return search(self._passes(encoded, question, beams), self._predict, question, beams)

    def _passes(self, encoded: Floats, question: Question, lines: int = 1) -> Passes:
        capacity = len(question.start) + question.limit - question.known
        return Passes(self._weights, self._ear.hear(encoded), capacity, lines)

    def _predict(self, x: Floats, text: list[int]) -> Floats:
        """The logits after tokens, those of the first after this text."""
        logits: Floats = predict(x, self._weights)
        logits[:, self._never] = -np.inf
        if not text:
            logits[0, self._never_first] = -np.inf
        return logits

    def _choices(
        self, passes: Passes, x: Floats, draft: list[int], question: Question
    ) -> Iterator[tuple[int, float]]:
        """The tokens chosen, each with its log-probability, without an end; the first pass was along ``draft``."""
        text, rest = question.text, draft
        while True:
            logits = self._predict(x, text)
            for kept, (chosen, logprob) in enumerate(_most_likely(logits)):
                text.append(chosen)
                yield chosen, logprob
                if kept == len(draft) or chosen != draft[kept]:
                    break
            if question.over.is_set():
                return
            passes.crop(passes.length - len(draft) + kept)
            rest = continued(text, question.guess, rest[kept:])
            draft = rest[: min(LOOK_AHEAD, passes.room - 1)]
            x = passes.read([text[-1], *draft])


def continued(text: list[int], guess: list[int], wrong: list[int]) -> list[int]:
    """What may follow the text, whose last token stands for the first of ``wrong``, the rest of what was tried.

    What follows that token further on, or what followed the last two in the guess, or in a text that starts over;
    else one token was replaced, or the sentence goes on and ends as the guess did.
    """
    if text[-1] in wrong[:LOOK_AHEAD]:
        return wrong[wrong.index(text[-1]) + 1 :]
    for tokens in (guess, text):
        for at in range(len(tokens) - 1, 1, -1):
            if tokens[at - 2 : at] == text[-2:]:
                return tokens[at:]
    return wrong[1:] or guess[-1:]


def _most_likely(logits: Floats) -> Iterator[tuple[int, float]]:
    """The first choice of each of ``logits [tokens, vocabulary]`` and its log-probability, as far as asked for."""
    for row in logits:
        chosen = int(row.argmax())
        yield chosen, -float(np.log(np.exp(row - row[chosen]).sum()))
