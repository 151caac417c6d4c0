"""Whisper on CTranslate2, fast on short sound: encoded at its real length instead of in a window of 30 s.

Whisper was trained on 30 s windows, and encoding one takes a processor core most of a second, however little is
in it. The encoder takes any length, and 3 s cost a twentieth. The price: without a window of silence after the
speech the decoder may start over at its end. So half a second of silence is added, and a text that repeats itself
is cut where it begins to.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.utils import download_model

from pipeline.backends.ctranslate2_weights import UnknownWeightsError
from pipeline.backends.repetition import without_repetition
from pipeline.backends.stage import failing_as
from pipeline.backends.whisper_decoder import WhisperDecoder
from pipeline.backends.whisper_ear import FRAME_SAMPLES, WhisperEar, as_storage, own_encoder
from pipeline.backends.whisper_passes import Question, Written
from pipeline.backends.whisper_tokens import with_first_merge, word_ends
from pipeline.cores import Cores
from pipeline.ports import RATE_HZ, TRUSTED_LOGPROB, Hypothesis, InputError, Samples
from pipeline.prepared import Prepared
from pipeline.worker import Worker

STAGE = "speech recognition"
LONGEST_SAMPLES = 28 * RATE_HZ
QUIETEST = 1e-4  # a sound that never gets louder than this holds no speech
# People say three or four words a second, about as many tokens; elsewhere a word takes several.
ENGLISH_TOKENS_PER_S = 5.5
TOKENS_PER_S = 10.0
FREE_TOKENS = 6
MOST_TOKENS = 200
PROMPT_TOKENS = 64
# Words that are not to be trusted get a second look as final ones: the three best ways to go on, side by side.
SECOND_LOOK_BEAMS = 3
# A text that repeats itself is taken without the repetition where so many words account for the sound.
SPOKEN_WORDS_PER_S = 2.0
# Below this, words are inventions: of eight recordings without speech none came closer than -1.2.
LEAST_LOGPROB = -1.1
# What is heard when speech stops must not wait for the update that happens to run then.
LANES = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known before (the text before the sound, what its text begins with, and what it may be) and wanted.

    ``over`` is set once nobody waits for the answer any more.
    """

    prompt: str = ""
    prefix: str = ""
    guess: str = ""
    timed: bool = False
    final: bool = False
    over: Event = field(default_factory=Event)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The three in the order of the text, the guess without the prefix that it begins with."""
        rest = self.guess[len(self.prefix) :] if self.guess.startswith(self.prefix) else ""
        return self.prompt, self.prefix, rest.strip()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the decoder wrote; ``logprob`` is the mean over its tokens, those it was told counting as certain."""

    ids: list[int]
    text: str
    logprob: float
    complete: bool
    cut: bool = False

    @property
    def invented(self) -> bool:
        """Whether these words were never said."""
        return self.logprob < LEAST_LOGPROB


class WhisperRecogniser:
    """One set of weights on one device, served by one worker."""

    def __init__(
        self,
        source: str | Path,
        *,
        threads: int = 1,
        compute_type: str = "",
        device: str = "auto",
        language: str | None = "en",
        cores: Cores | None = None,
        prepared: Prepared | None = None,
    ) -> None:
        """Load a local folder or a hub id: int8 on a CPU, float16 on a GPU unless told otherwise.

        ``language``: None to detect it in every stretch of sound. ``prepared``: where packed weights are kept for
        the next start. Raises InputError where there is no such model or no such language.
        """
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        compute_type = compute_type or ("int8" if device == "cpu" else "float16")
        self._tokenizers: dict[str, Tokenizer] = {}
        try:
            folder = Path(source if Path(source).is_dir() else download_model(str(source)))
            options = {"compute_type": compute_type, "cpu_threads": threads, "num_workers": LANES}
            with ThreadPoolExecutor(2, "echoic-loading-asr") as pool:
                encoder = pool.submit(own_encoder, folder, prepared) if device == "cpu" else None
                loading = pool.submit(_ctranslate2, folder, device=device, **options)
                own = device == "cpu" and compute_type == "int8"
                self.decoder = _own_decoder(folder, threads, prepared) if own else None
                self.whisper: Any = loading.result()
            self._language = language if self.whisper.model.is_multilingual else "en"
            self._tokenizer(self._language or "en")
        except (OSError, ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0]
            raise InputError(
                f"speech recognition model {source}: no store entry, folder or hub id of a model ({why})"
            ) from error
        # A GPU encodes the whole window in a few milliseconds: nothing to save, nothing to guard against.
        self._whole_windows = device != "cpu"
        own_ear = encoder.result() if encoder else None
        self.ear = WhisperEar(self.whisper, own_ear, whole_windows=self._whole_windows)
        self.worker = Worker("asr", cores if device == "cpu" else None, threads, LANES)

    async def recognise(
        self,
        sound: Samples,
        *,
        prompt: str = "",
        prefix: str = "",
        guess: str = "",
        timed: bool = False,
        final: bool = False,
    ) -> Hypothesis:
        """What was said; see the port. Raises StageError. Cancelled, it stops soon: others need the core."""
        asked = Asked(prompt, prefix, guess, timed, final)
        try:
            with failing_as(STAGE):
                return await self.worker.run(self._hear, sound, asked)
        finally:
            asked.over.set()

    async def recognise_padded(self, sound: Samples) -> Hypothesis:
        """What was said, as faster-whisper does it by default: 30 s windows, beam search. Raises StageError."""
        with failing_as(STAGE):
            return await self.worker.run(self._hear_padded, sound)

    def close(self) -> None:
        """End the worker; the weights go when nothing refers to them."""
        self.worker.close()

    # --- in the worker's thread ---

    def _hear(self, sound: Samples, asked: Asked) -> Hypothesis:
        if np.abs(sound).max(initial=0.0) < QUIETEST:
            return Hypothesis(asked.prefix)
        if len(sound) > LONGEST_SAMPLES:
            return self._hear_padded(sound)
        encoded = self.ear.encode(sound)
        if asked.over.is_set():
            return Hypothesis(asked.prefix)
        seconds = len(sound) / RATE_HZ
        question = self.question(encoded, seconds, asked)
        answer = self._decode(encoded, question, asked)
        trusted = answer.logprob >= TRUSTED_LOGPROB
        sure = trusted and answer.complete
        told_twice = answer.cut and len(answer.text.split()) >= SPOKEN_WORDS_PER_S * seconds
        wanted = asked.final and not asked.over.is_set()
        second_look = wanted and not (sure or (trusted and told_twice))
        if second_look:
            question = replace(question, limit=min(MOST_TOKENS, 2 * question.limit))
            answer = self._decode(encoded, question, asked, SECOND_LOOK_BEAMS)
        text = asked.prefix if answer.invented else answer.text
        ends = self._word_ends(encoded, answer, question, len(sound))[: len(text.split())] if asked.timed else ()
        return Hypothesis(text, answer.logprob, second_look, ends, sure or second_look)

    def _hear_padded(self, sound: Samples) -> Hypothesis:
        segments = list(self.whisper.transcribe(sound, language=self._language)[0])
        if not segments:
            return Hypothesis("", padded=True)
        text = " ".join(segment.text.strip() for segment in segments)
        logprob = sum(segment.avg_logprob for segment in segments) / len(segments)
        return Hypothesis(text, logprob, padded=True)

    def question(self, encoded: Any, seconds: float, asked: Asked) -> Question:
        """What the decoder begins with, for so many seconds of sound."""
        language = self._language or self._detected(encoded)
        tokenizer = self._tokenizer(language)
        prompt, prefix, guess = (tokenizer.encode(f" {text}") if text else [] for text in asked.parts)
        before = [tokenizer.sot_prev, *prompt[-PROMPT_TOKENS:]] if prompt else []
        rate = ENGLISH_TOKENS_PER_S if language == "en" else TOKENS_PER_S
        limit = min(MOST_TOKENS, max(int(seconds * rate), len(prefix)) + FREE_TOKENS)
        start = [*before, *tokenizer.sot_sequence, tokenizer.no_timestamps, *prefix]
        return Question(tokenizer, start, len(prefix), limit, guess, asked.over)

    def _decode(self, encoded: Any, question: Question, asked: Asked, beams: int = 1) -> _Answer:
        """The likeliest of what so many beams lead to."""
        if self.decoder is None or not self.decoder.takes(question):
            texts = self._searched(encoded, question, beams)
        elif beams > 1:
            texts = self.decoder.search(encoded[0], question, beams)
        else:
            texts = [self.decoder.write(encoded[0], question)]
        answers = [_answer(written, question) for written in texts]
        if not self._whole_windows:
            answers = [without_second_telling(answer, asked.prefix) for answer in answers]
        return max(answers, key=lambda answer: answer.logprob)

    def _searched(self, encoded: Any, question: Question, beams: int) -> list[Written]:
        # CTranslate2 writes at most the smaller of half this length and this length less the start's.
        length = max(2 * question.limit, question.limit + len(question.start) - question.known)
        result = self.whisper.model.generate(
            as_storage(encoded),
            [question.start],
            beam_size=beams,
            num_hypotheses=beams,
            max_length=length,
            return_scores=True,
            suppress_blank=not question.known,
        )[0]
        return [Written(ids, score) for ids, score in zip(result.sequences_ids, result.scores, strict=True)]

    def _word_ends(self, encoded: Any, answer: _Answer, question: Question, samples: int) -> tuple[int, ...]:
        ids = answer.ids
        if not ids:
            return ()
        frames = max(1, samples * 2 // FRAME_SAMPLES)
        path = self.whisper.model.align(as_storage(encoded), question.tokenizer.sot_sequence, [ids], frames)[
            0
        ].alignments
        starts = {token: frame * FRAME_SAMPLES for token, frame in reversed(path)}
        pieces = [question.tokenizer.decode([token]) for token in ids]
        return word_ends(pieces, [starts.get(number, samples) for number in range(len(ids) + 1)])

    def _detected(self, encoded: Any) -> str:
        language: str = self.whisper.model.detect_language(as_storage(encoded))[0][0][0]
        return language.strip("<|>")

    def _tokenizer(self, language: str) -> Tokenizer:
        if language not in self._tokenizers:
            multilingual = self.whisper.model.is_multilingual
            self._tokenizers[language] = Tokenizer(
                self.whisper.hf_tokenizer, multilingual, task="transcribe", language=language
            )
        return self._tokenizers[language]


def _ctranslate2(folder: Path, **options: Any) -> WhisperModel:
    whisper = WhisperModel(str(folder), **options)
    whisper.hf_tokenizer = with_first_merge(whisper.hf_tokenizer)
    return whisper


def _own_decoder(folder: Path, threads: int, prepared: Prepared | None) -> WhisperDecoder | None:
    """The decoder that can take a guess, its loops compiled; None where the weights are of another kind."""
    try:
        decoder = WhisperDecoder(folder, threads, prepared)
    except UnknownWeightsError as error:
        log.warning("words that were heard before are decoded again: %s", error)
        return None
    decoder.warm_up()
    return decoder


def _answer(written: Written, question: Question) -> _Answer:
    text: str = question.tokenizer.decode(written.ids).strip()
    capped = len(written.ids) >= question.limit
    kept = text.rpartition(" ")[0] if capped else text  # the limit may have split the last word
    return _Answer(written.ids, kept, written.logprob, not capped)


def without_second_telling(answer: _Answer, known: str) -> _Answer:
    """The answer up to where it starts over; what is told again is certain: the doubt is in the first telling."""
    text = without_repetition(answer.text, known)
    if text == answer.text:
        return answer
    logprob = answer.logprob * len(answer.text.split()) / len(text.split())
    return replace(answer, text=text, logprob=logprob, complete=False, cut=True)
