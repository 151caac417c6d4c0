"""HibariVoice: the built-in voice, English at 24 kHz, some hundred times faster than real time on one core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.format import ms_to_samples, samples_to_ms
from pipeline.config import Config
from pipeline.cores import Cores
from pipeline.ports import InputError, Samples, Speech, StageError
from pipeline.worker import Worker, WorkerBusy

RATE_HZ = 24_000
SPEEDS = (0.5, 2.0)

# The model puts 0.2-0.4 s of silence around every sentence; of that, these are kept. A clause goes on, and words
# that were cut off within a clause go on at once.
_SENTENCE_GAP_MS, _CLAUSE_GAP_MS, _WORD_GAP_MS = 150.0, 100.0, 40.0
_LEAD_MS = 5  # kept before the first audible sound, faded in; also the resolution of the search for it
_AUDIBLE_DB = -55.0  # 30 dB below this voice's speech: below the onset of "f" and "h", above its noise floor
_PAUSE_WEIGHT = 3  # a comma takes about as long as four phonemes, and counts as one of them already
_SEED = 0  # of the noise in the sound: the same text is the same sound

_SILENCE = np.zeros(0, np.float32)
_ADDRESS = re.compile(r"(?:[\w.+-]+@)?(?:[\w-]+\.)+[a-z]{2,}")
_READ_OUT = {"@": " at ", ".": " dot ", "_": " underscore ", "-": " dash ", "+": " plus "}


class HibariVoice:
    """The Voice port on hibari-tts, with one worker thread; the model is loaded with the first phrase.

    ``name`` is one of hibari's voices. "heart" comes with the package; another one has to be on this machine
    already, since nothing is downloaded behind the user's back. Raises InputError for a voice that is not there.

    When each character begins is an estimate: every sentence begins and ends where its sound does, and its words
    share that time by their number of phonemes. Measured against the model's own durations, a word's beginning is
    64 ms off (median; 180 ms at the 90th percentile).
    """

    def __init__(self, name: str = "heart", cores: Cores | None = None, *, private: bool = False) -> None:
        """``private``: keep no word that was spoken, which makes words that come again a little slower."""
        self.name = _check_name(name)
        self._count = _count_phonemes.__wrapped__ if private else _count_phonemes
        self._engine: Any = None
        self._worker = Worker(f"voice-{name}", cores)

    async def load(self) -> None:
        """Load all of the model now, so that the first phrase does not wait for it."""
        # No lexicon has the second word: that takes the net which guesses how words sound.
        await self.speak("Hello, zorbly.")

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        """The phrase as sound, without silence in front; an empty Speech if there is nothing to say in it.

        Raises InputError for a speed outside 0.5-2, StageError when the model fails.
        """
        if not SPEEDS[0] <= speed <= SPEEDS[1]:
            raise InputError(f"a speed of {speed} is outside {SPEEDS[0]}-{SPEEDS[1]}; 1 is the voice's own")
        try:
            return await self._worker.run(self._speak, phrase, speed)
        except WorkerBusy as error:
            raise StageError("speech", str(error)) from error
        except Exception as error:  # the model's libraries share no base class
            raise StageError("speech", f"the voice {self.name!r} failed on {phrase!r}: {error}") from error

    def close(self) -> None:
        """End the worker thread."""
        self._worker.close()

    def _speak(self, phrase: str, speed: float) -> Speech:
        if self._engine is None:
            from hibari import Hibari

            self._engine = Hibari(voice=self.name)
        pieces: list[Samples] = []
        edges_ms = np.zeros(1)
        for sentence in _sentences(self._engine, phrase):
            spoken = self._say(sentence, speed)
            pieces.append(spoken.samples)
            edges_ms = np.concatenate((edges_ms, edges_ms[-1] + self._align(sentence, spoken)))
        samples = np.concatenate(pieces) if pieces else _SILENCE
        edges = np.rint(edges_ms).astype(int)
        return Speech(samples, RATE_HZ, phrase, tuple(edges[:-1].tolist()), tuple(np.diff(edges).tolist()))

    def _say(self, sentence: str, speed: float) -> _Spoken:
        words = " ".join(map(_readable, sentence.split()))
        gap_ms = _gap_ms(words)
        if gap_ms == _WORD_GAP_MS:
            words += ","  # without it, the voice closes the sentence
        phonemes = self._engine.phonemize(words)
        if not any(map(str.isalpha, "".join(phonemes))):
            return _Spoken(_SILENCE, 0.0)
        rng = np.random.default_rng(_SEED)
        sound = [self._engine.from_ids(self._engine.ids(part), speed, rng) for part in phonemes]
        return _trim(np.concatenate(sound), gap_ms / speed)

    def _align(self, sentence: str, spoken: _Spoken) -> NDArray[np.float64]:
        """When each character of the sentence ends, in ms from the sentence's first sample."""
        if not len(spoken.samples):
            return np.zeros(len(sentence))
        weights = np.zeros(len(sentence))
        for word in re.finditer(r"\S+", sentence):
            weights[word.start() : word.end()] = self._weight(word.group()) / len(word.group())
            weights[word.end() : word.end() + 1] = 1
        weights[len(sentence.rstrip()) :] = 0
        ends: NDArray[np.float64] = np.cumsum(weights) * (spoken.sound_ms / weights.sum())
        ends[-1] = samples_to_ms(len(spoken.samples), RATE_HZ)  # the gap belongs to the last character
        return ends

    def _weight(self, word: str) -> float:
        """How long the word takes, in average phonemes."""
        return self._count(self._engine, _readable(word)) + _PAUSE_WEIGHT * (word[-1] in ",;:—")


def voice_of(config: Config, cores: Cores) -> HibariVoice:
    """The voice that the configuration names. Raises InputError where there is none of that name."""
    # With another speech server its voices are not ours; the socket here speaks with the built-in one.
    name = "heart" if config.speech.url else config.speech.voice
    return HibariVoice(name, cores, private=config.memory.mode == "echoic")


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A sentence's samples, and how many milliseconds of them come before the gap at the end."""

    samples: Samples
    sound_ms: float


def _check_name(name: str) -> str:
    from hibari.voices import VOICES, voice_path

    if name not in VOICES:
        raise InputError(f"there is no voice {name!r}; choose one of {', '.join(VOICES)}")
    try:
        voice_path(name, download_missing=False)
    except FileNotFoundError:
        raise InputError(
            f"the voice {name!r} is not on this machine; fetch it once with: hibari Hi --voice {name} -o hi.wav"
        ) from None
    return name


def _sentences(engine: Any, phrase: str) -> Iterator[str]:
    """The phrase in sentences as the model wants them, white space kept: joined, they are the phrase."""
    starts, searched = [], 0
    for sentence in engine.split_sentences(phrase):
        starts.append(phrase.index(sentence, searched))
        searched = starts[-1] + len(sentence)
    for start, end in pairwise([0, *starts[1:], len(phrase)]):
        if start < end:
            yield phrase[start:end]


def _readable(word: str) -> str:
    """An e-mail or web address in words, anything else as it is."""
    return _ADDRESS.sub(lambda address: "".join(_READ_OUT.get(c, c) for c in address.group()), word)


@lru_cache(maxsize=4096)
def _count_phonemes(engine: Any, word: str) -> int:
    return max(1, len(engine.g2p(word)))


def _gap_ms(words: str) -> float:
    last = words.rstrip("\"'”’»)]}")[-1:]
    if last and last in ".!?…":
        return _SENTENCE_GAP_MS
    return _CLAUSE_GAP_MS if last and last in ",;:—–-" else _WORD_GAP_MS


def _trim(sound: Samples, gap_ms: float) -> _Spoken:
    """From just before the first audible sound to ``gap_ms`` after the last, faded at both ends."""
    step = ms_to_samples(_LEAD_MS, RATE_HZ)
    frames = sound[: len(sound) // step * step].reshape(-1, step)
    loud = np.flatnonzero(np.mean(frames**2, axis=1) > 10 ** (_AUDIBLE_DB / 10))
    if not len(loud):
        return _Spoken(_SILENCE, 0.0)
    start, end = max(0, loud[0] - 1) * step, (loud[-1] + 1) * step
    kept = sound[start : end + ms_to_samples(gap_ms, RATE_HZ)].copy()
    fade = np.linspace(0, 1, step, dtype=np.float32)
    kept[:step] *= fade
    kept[-step:] *= fade[::-1]
    return _Spoken(kept, samples_to_ms(end - start, RATE_HZ))
