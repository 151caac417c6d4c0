"""Transcriber: the sound of a turn in, partial and final transcripts out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from audio.format import AudioChunk
from audio.framer import PreRoll
from pipeline.agreement import Agreement, words_to_commit
from pipeline.frames import Final, Partial
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Recogniser, Samples

# Sound is dropped from a window longer than this, and this much of it stays. The longer the window the slower the
# update; the shorter, the less the recogniser has to go by.
WINDOW_S = 8.0
KEPT_S = 3.0
# Never more sound than this, whatever the recogniser makes of it (music, a babble of voices).
LIMIT_S = 20.0
# Sound after the last speech sample that the final transcript must have taken in: it may hold the end of a
# word. One frame is enough where the recogniser is sure.
REACH_SAMPLES = 3 * VAD_FRAME_SAMPLES
SURE_REACH_SAMPLES = VAD_FRAME_SAMPLES


@dataclass(slots=True)
class _Turn:
    """What was heard in one turn. Positions are samples since the session began."""

    origin: int
    sound: PreRoll = field(default_factory=lambda: PreRoll(int(LIMIT_S * RATE_HZ), RATE_HZ))
    words: Agreement = field(default_factory=Agreement)
    window_start: int = 0
    heard_until: int = 0
    sure: bool = False
    fresh: int = 0
    voiced: bool = False
    clear: bool = False
    hushed: bool = False

    @property
    def end(self) -> int:
        return self.origin + self.sound.end

    def window(self) -> AudioChunk:
        self.window_start = max(self.window_start, self.origin + self.sound.start)
        return self.sound.cut(self.window_start - self.origin)


class Transcriber:
    """Streaming transcription of one conversation, a turn at a time.

    Sound is pushed as it comes; ``next_partial`` is awaited in a loop; ``finish`` is called at a pause, and more
    sound may follow it. One recognition runs at a time, always on the newest sound: when one takes longer than a
    tick, the ticks that it missed are skipped, so the transcript never falls behind further than that. One that
    runs when speech stops is given up for one that hears how it stopped. Cancelling a call leaves the transcript
    as it was.
    """

    def __init__(self, recogniser: Recogniser, *, tick_ms: int = 200) -> None:
        self._recogniser = recogniser
        self._tick = tick_ms * RATE_HZ // 1000
        self._turn: _Turn | None = None
        self._due = asyncio.Event()
        self._recognising = asyncio.Lock()
        self._update: asyncio.Task[None] | None = None
        self.skipped_ticks = 0
        self.asr_lag_ms = 0.0

    @property
    def heard_s(self) -> float:
        """Seconds of sound in the turn so far."""
        return (self._turn.end - self._turn.origin) / RATE_HZ if self._turn else 0.0

    def begin(self, sound: AudioChunk) -> None:
        """A turn begins, and this is its first sound; what was heard before is forgotten."""
        self._turn = _Turn(sound.start, window_start=sound.start, heard_until=sound.start)
        self._turn.sound.push(sound.samples)

    def forget(self) -> None:
        """Drop the turn; sound is ignored until the next one begins."""
        self._turn = None
        self._due.clear()

    def push(self, samples: Samples, voiced: bool = True, clear: bool = True) -> None:
        """The next sound. ``voiced``: speech is going on and this is part of it. ``clear``: and beyond doubt."""
        turn = self._turn
        if turn is None:
            return
        turn.sound.push(samples)
        if turn.voiced and not voiced and self._update is not None:
            self._update.cancel()
        turn.hushed = not voiced and (turn.hushed or turn.voiced)
        turn.voiced, turn.clear = voiced, turn.clear or clear
        turn.fresh += len(samples) if voiced else 0
        # The first silent frame may be the end of the turn: what is heard now is all that the final needs.
        if turn.fresh >= self._tick or turn.hushed:
            self._due.set()

    async def next_partial(self) -> Partial:
        """The next update, when a tick of speech has come or speech has just stopped. Raises StageError."""
        while True:
            await self._due.wait()
            if partial := await self.update():
                return partial

    async def update(self) -> Partial | None:
        """The update that is due now; None where none is, it was given up, or it is forgotten by now."""
        async with self._recognising:
            turn = self._turn
            if turn is None or not self._due.is_set():
                return None
            updated = await self._updated(turn)
        if not updated or turn is not self._turn:
            return None
        return Partial(turn.words.stable, turn.words.unstable, turn.heard_until)

    async def finish(self, until: int) -> Final:
        """The transcript up to the pause whose last speech sample is ``until``. Raises StageError.

        A running update is waited for; where it heard all the speech, it is the final.
        """
        async with self._recognising:
            turn = self._turn
            if turn is None:
                return Final("", until)
            reach = SURE_REACH_SAMPLES if turn.sure else REACH_SAMPLES
            if turn.heard_until < min(until + reach, turn.end):
                await self._recognise(turn, final=True)
            return Final(turn.words.text, until)

    async def _updated(self, turn: _Turn) -> bool:
        """Recognise; False if that was given up because speech has stopped."""
        self._update = update = asyncio.create_task(self._recognise(turn))
        try:
            await asyncio.wait({update})
        finally:
            self._update = None
            update.cancel()
        return not update.cancelled() and update.result() is None

    async def _recognise(self, turn: _Turn, final: bool = False) -> None:
        """Recognise the window up to the newest sound and take the hypothesis."""
        self.skipped_ticks += max(0, turn.fresh // self._tick - 1)
        self._due.clear()
        turn.fresh, turn.hushed = 0, False
        window, words = turn.window(), turn.words
        timed = len(window.samples) > WINDOW_S * RATE_HZ
        end = turn.origin + window.end
        heard = await self._recogniser.recognise(
            window.samples,
            prompt=words.prompt,
            prefix=words.prefix,
            guess=words.window_text,
            timed=timed,
            final=final,
        )
        turn.heard_until, turn.sure = end, heard.sure
        # In a voice that never became clear, doubtful words are none: recognisers find words in any babble.
        believed = turn.clear or heard.trusted
        words.push(heard.text if believed else words.prefix, turn.sure)
        self.asr_lag_ms = (turn.end - end) * 1000 / RATE_HZ
        if timed:
            self._shorten(turn, len(window.samples), heard.ends)

    def _shorten(self, turn: _Turn, length: int, ends: tuple[int, ...]) -> None:
        """Take the oldest words and their sound out of a window of ``length`` samples; silence just goes."""
        keep_from = length - int(KEPT_S * RATE_HZ)
        count = words_to_commit(turn.words.window_text, ends, keep_from)
        turn.words.commit(count)
        if count:
            turn.window_start += ends[count - 1]
        elif not turn.words.window_text:
            turn.window_start += keep_from
