"""Spoken over: what becomes of a reply when somebody talks, murmurs or coughs while it is heard."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audio.framer import Framer
from audio.resample import resample
from clients.clip import LONGEST_REPLY_S, NO_REPLY_S, STALL_S
from clients.hearing import AUDIBLE_LEVEL, Hearing, Piece, Reply, first_audible, play_back
from clients.realtime import RATE_HZ, RealtimeClient, ServerEvent, ServerGone, connect
from clients.recordings import Recording
from clients.uplink import Uplink, open_uplink
from pipeline.interruption import Interruption, classify
from pipeline.ports import RATE_HZ as HEARD_HZ
from pipeline.ports import VAD_FRAME_SAMPLES, VoiceActivity
from pipeline.timing import loop_clock

STORY = "Tell me a long story about the sea."
INSTRUCTIONS = "You are a storyteller. You tell long stories in plain words, without lists."
LISTENED_S = 1.5  # to the story, before something is said
LEAD_S = 0.3  # kept of a recording before its first sample of speech
NOISE_S = 5.0  # kept of a recording in which nobody speaks
FIRST_AUDIO_S = 30.0
# No ear can be sure of speech sooner: silence is counted from the end of the second frame of it.
FRAME_S = VAD_FRAME_SAMPLES / HEARD_HZ


@dataclass(frozen=True, slots=True, eq=False)
class Remark:
    """What is said over a reply: float32 mono ``[samples]`` at 24 kHz, whose speech begins at ``onset_s``.

    ``noticed_s``: the end of the second frame that sounds like speech, to the ear that hears it; later than two
    frames where a breath or a soft consonant comes first. None where no ear has listened.
    """

    name: str
    samples: NDArray[np.float32]
    onset_s: float
    kind: Interruption
    noticed_s: float | None = None


@dataclass(frozen=True, slots=True)
class SpokenOver:
    """What became of one reply.

    ``silent_after_ms``: from the end of the second frame that sounds like speech to the last sample of the reply
    that was heard, where it was cut; ``since_onset_ms``: from the onset of the speech. ``stale_frames``: pieces of
    the reply that came after the client had been told of the speech.
    ``lost_ms``: sound that is missing, against a reply that nobody spoke over; None where it was not compared.
    """

    remark: str
    kind: Interruption
    status: str = ""
    silent_after_ms: float | None = None
    since_onset_ms: float | None = None
    stale_frames: int = 0
    answered: bool = False
    heard: str = ""
    lost_ms: float | None = None
    problem: str = ""

    @property
    def cut(self) -> bool:
        """Whether the reply was ended by the remark."""
        return self.status == "cancelled"

    @property
    def fault(self) -> str:
        """What is wrong with it; "" if this is what people want of an assistant."""
        if self.problem:
            return self.problem
        if self.stale_frames:
            return f"{self.stale_frames} pieces of the reply came after it was cut"
        if self.kind in (Interruption.NOTHING, Interruption.BACKCHANNEL):
            if self.status != "completed":
                return f"the reply did not go on: {self.status}"
            return f"{self.lost_ms:.0f} ms of the reply were lost" if (self.lost_ms or 0.0) > 0 else ""
        if not self.cut:
            return f"the reply was not cut: {self.status}"
        wanted = self.kind is Interruption.WORDS
        return "" if self.answered is wanted else ("never answered" if wanted else "answered")


def remark_from(recording: Recording) -> Remark | None:
    """The recording from just before its speech on; None where it is not known what is said, or when."""
    if recording.transcript is None:
        return None
    sound = recording.at(RATE_HZ)
    if recording.silent:
        return Remark(recording.name, sound[: round(NOISE_S * RATE_HZ)], 0.0, Interruption.NOTHING)
    if recording.speech_start_s is None:
        return None
    begins_s = max(recording.speech_start_s - LEAD_S, 0.0)
    samples, onset_s = sound[round(begins_s * RATE_HZ) :], recording.speech_start_s - begins_s
    # Words of another language are words, whatever the English lists say.
    kind = classify(recording.transcript) if recording.language == "en" else Interruption.WORDS
    return Remark(recording.name, samples, onset_s, kind)


async def noticed(remark: Remark, ear: VoiceActivity, threshold: float) -> Remark:
    """The remark, with when this ear notices it in the silence between two remarks."""
    silence = np.zeros(round(LISTENED_S * HEARD_HZ), np.float32)
    framer, loud = Framer(VAD_FRAME_SAMPLES), 0
    sound = np.concatenate((silence, resample(remark.samples, RATE_HZ, HEARD_HZ)))
    for number, frame in enumerate(framer.push(sound), start=1):
        [probability] = await ear.push([frame])
        loud = loud + 1 if probability >= threshold else 0
        if loud == 2:
            return replace(remark, noticed_s=number * FRAME_S - LISTENED_S)
    return remark


async def hear_out(url: str) -> Reply:
    """The story, told to its end with nobody speaking over it. Raises ServerGone when it is not."""
    nothing = Remark("nothing", np.zeros(0, np.float32), 0.0, Interruption.NOTHING)
    trial = await _tell(url, nothing)
    fault = trial.result().fault
    if trial.story is None or fault:
        raise ServerGone(f"with nobody speaking, the story was not told to its end: {fault}")
    return trial.story


async def speak_over(remark: Remark, url: str, undisturbed: Reply | None = None) -> SpokenOver:
    """Ask for the story in a fresh session and make the remark while it is heard; always ends.

    ``undisturbed`` is the same story heard out, to compare with. Never raises for what the server does.
    """
    try:
        return (await _tell(url, remark)).result(undisturbed)
    except ServerGone as error:
        return SpokenOver(remark.name, remark.kind, problem=str(error))


async def _tell(url: str, remark: Remark) -> Trial:
    async with connect(url) as client:
        transcribed = {"input": {"transcription": {"model": "default"}}}
        await client.configure(instructions=INSTRUCTIONS, audio=transcribed)
        async with open_uplink(client) as uplink:
            await client.say(STORY)
            trial = Trial(remark, uplink)
            await trial.listen(client)
            return trial


class Trial:
    """One story being spoken over, to a listener who plays what comes and drops it when told of speech."""

    def __init__(self, remark: Remark, uplink: Uplink) -> None:
        self._remark = remark
        self._uplink = uplink
        self._hearing = Hearing()
        self._asked_at = loop_clock()
        self._begins_s: float | None = None  # the remark's position, once the story is heard
        self._dropped_at = math.inf
        self._pieces_before = 0  # of the story, when it was dropped

    @property
    def story(self) -> Reply | None:
        """The reply that is spoken over."""
        return self._hearing.replies[0] if self._hearing.replies else None

    @property
    def _dropped(self) -> bool:
        return self._dropped_at < math.inf

    async def listen(self, client: RealtimeClient) -> None:
        """Read the session until nothing more is to be expected of it. Raises ServerGone when it breaks."""
        try:
            async with asyncio.timeout_at(self._give_up_at()) as limit:
                async for event in client:
                    self.push(event)
                    limit.reschedule(self._give_up_at())
        except TimeoutError:
            return
        raise ServerGone("the server ended the session before the story was over")

    def push(self, event: ServerEvent) -> None:
        """Take the next event of the session."""
        self._hearing.push(event)
        story = self.story
        if story is None:
            return
        if self._begins_s is None and _is_audible(story):
            silence = np.zeros(round(LISTENED_S * RATE_HZ), np.float32)
            begins_s = self._uplink.speak(np.concatenate((silence, self._remark.samples)))
            self._begins_s = begins_s + LISTENED_S
        told_of_speech = event.type == "input_audio_buffer.speech_started"
        if told_of_speech and not self._dropped and not story.finished:
            self._dropped_at, self._pieces_before = event.received_at, len(story.pieces)

    def result(self, undisturbed: Reply | None = None) -> SpokenOver:
        """What became of the story."""
        story, remark = self.story, self._remark
        if story is None or self._begins_s is None:
            problem = "; ".join(self._hearing.errors) or "the story was never heard"
            return SpokenOver(remark.name, remark.kind, problem=problem)
        return SpokenOver(
            remark.name,
            remark.kind,
            status=story.status,
            silent_after_ms=self._silent_after_ms(story, self._noticed_s),
            since_onset_ms=self._silent_after_ms(story, remark.onset_s),
            stale_frames=len(story.pieces) - self._pieces_before if self._dropped else 0,
            answered=self._is_answered(),
            heard=self._hearing.transcript,
            lost_ms=lost_ms(story, undisturbed) if undisturbed and story.status == "completed" else None,
            problem=self._problem(story),
        )

    @property
    def _noticed_s(self) -> float:
        earliest_s = self._remark.onset_s + 2 * FRAME_S
        return earliest_s if self._remark.noticed_s is None else max(earliest_s, self._remark.noticed_s)

    def _silent_after_ms(self, story: Reply, position_s: float) -> float | None:
        """From a position in the remark on; None where the story was not cut."""
        if self._begins_s is None or story.status != "cancelled":
            return None
        said_at = self._uplink.spoken_at(self._begins_s + position_s)
        before, stale = story.pieces[: self._pieces_before], story.pieces[self._pieces_before :]
        heard_at = last_audible_at(stale) or last_audible_at(before, self._dropped_at)
        return None if heard_at is None else max((heard_at - said_at) * 1000, 0.0)

    def _problem(self, story: Reply) -> str:
        if self._hearing.errors:
            return "; ".join(self._hearing.errors)
        if not story.finished:
            return "the story never ended"
        return story.error

    def _is_answered(self) -> bool:
        return any(map(_is_audible, self._hearing.replies[1:]))

    def _give_up_at(self) -> float:
        """When to stop listening, unless there is news before."""
        story = self.story
        if story is None or (self._begins_s is None and not story.finished):
            return self._asked_at + FIRST_AUDIO_S
        said_s = (self._begins_s or 0.0) + len(self._remark.samples) / RATE_HZ
        said_at = self._uplink.spoken_at(said_s)
        if not story.finished:
            patience_s = STALL_S
        else:
            patience_s = NO_REPLY_S if self._dropped and not self._is_answered() else 0.0
        quiet_since = max(said_at, self._hearing.last_news_at)
        return min(quiet_since + patience_s, said_at + LONGEST_REPLY_S)


def last_audible_at(pieces: Sequence[Piece], dropped_at: float = math.inf) -> float | None:
    """When the last sample that can be heard was played, by a player that drops what it has at ``dropped_at``."""
    playback = play_back(pieces)
    for piece, begins in zip(reversed(pieces), reversed(playback.starts if playback else ()), strict=True):
        played = round(min(max((dropped_at - begins) * RATE_HZ, 0), len(piece.samples)))
        loud = np.flatnonzero(np.abs(piece.samples[:played]) > AUDIBLE_LEVEL)
        if len(loud):
            return begins + (int(loud[-1]) + 1) / RATE_HZ
    return None


def lost_ms(story: Reply, undisturbed: Reply) -> float | None:
    """Milliseconds of sound that the story lacks; less than 0 for what was sent twice, fading out and in again.

    None where the two stories have different words: then they cannot be compared.
    """
    if story.text != undisturbed.text:
        return None
    return (_samples(undisturbed) - _samples(story)) * 1000 / RATE_HZ


def _samples(reply: Reply) -> int:
    return sum(len(piece.samples) for piece in reply.pieces)


def _is_audible(reply: Reply) -> bool:
    return any(first_audible(piece.samples) is not None for piece in reversed(reply.pieces))
