"""``echoic bench echo --offline``: simulated rooms without a clock, so that the machine's speed changes nothing.

Room, canceller, ducking, voice activity, the rules of turn taking and the recogniser are the real ones, moved on
by ten milliseconds at a time. Of the server only its pace is imitated: it sends a reply 100 ms ahead of its sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from audio.echo import Canceller
from audio.framer import Framer, PreRoll
from audio.resample import StreamResampler, resample
from clients.echo_bench import Setting, as_loud_as_the_voice
from clients.interruptions import Remark
from clients.microphone import Gate, Microphone
from clients.realtime import RATE_HZ, WIRE
from clients.room import BLOCK_MS, Room
from clients.tables import titled
from pipeline.actions import Action, Cut, FinishHearing, ForgetHeard, Hear, PausePlayback, ResumePlayback
from pipeline.config import Config
from pipeline.listen import FRAME_MS, Listener
from pipeline.ports import RATE_HZ as HEARD_HZ
from pipeline.ports import VAD_FRAME_SAMPLES, Recogniser, Speech, VoiceActivity
from pipeline.transcribe import Transcriber
from pipeline.turns import TurnKeeper

STORIES = (
    "The sea was calm that morning, and the old sailor looked out at the grey horizon. He was waiting.",
    "Once upon a time the moon fell into a lake, and nobody noticed until the fishermen came home.",
    "Deep in the forest there lived a fox who could count to ten. Every evening she counted the brightest stars.",
    "The last train of the night carried a single passenger. She held a blue umbrella and said nothing.",
    "In the warm kitchen a cat watched the bread rise. When the baker turned around, the cat was white.",
    "A young climber reached the top of the mountain at noon. She sat on a stone and looked at the clouds.",
    "The river ran past the mill and under the stone bridge. Two brothers built a raft there.",
    "That winter the snow reached the windows. They dug a tunnel and played there until spring.",
    "The library kept one book that nobody was allowed to open. One day a girl asked why, and the old man smiled.",
    "On a small island stood a lighthouse without a lamp. The keeper sang every night, and the ships found home.",
)
LEAD_MS = 100.0
LISTENED_MS = 1500.0  # to a reply, before somebody speaks over it
PAUSE_MS = 600.0
LONGEST_REMARK_S = 3.5
KEPT_S = 10


@dataclass(frozen=True, slots=True)
class Alone:
    """What a reply that nobody spoke over was taken for, in frames of 32 ms and in times."""

    frames: int
    voiced: int
    longest_ms: float
    pauses: int
    cuts: int


@dataclass(frozen=True, slots=True)
class Over:
    """What a remark did to a reply: ms from its onset, None where it did not; and its words as they were heard."""

    remark: str
    paused_ms: float | None
    cut_ms: float | None
    heard: str


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One room: replies that nobody spoke over, and remarks over others at each level in dB."""

    setting: Setting
    alone: Sequence[Alone]
    over: Mapping[float, Sequence[Over]]

    @property
    def fault(self) -> bool:
        """Whether it heard itself, or did not hear somebody else."""
        heard_itself = any(each.pauses or each.cuts for each in self.alone)
        return heard_itself or any(each.cut_ms is None for remarks in self.over.values() for each in remarks)


@dataclass(slots=True)
class _Reply:
    """A reply on its way, who listens meanwhile, and what became of it."""

    item: str
    speech: Speech
    unsent: NDArray[np.float32]
    keeper: TurnKeeper
    transcriber: Transcriber
    paused: bool = False
    paused_at_ms: float | None = None
    cut_at_ms: float | None = None
    pauses: int = 0
    probabilities: list[float] = field(default_factory=list)
    heard: str = ""


class Scene:
    """One room with its microphone, and the ears of a server, for one reply after the other."""

    def __init__(
        self,
        setting: Setting,
        canceller: Canceller | None,
        activity: VoiceActivity,
        recogniser: Recogniser,
        config: Config,
    ) -> None:
        self._config = config
        self._room = Room(setting.gain_db, setting.delay_ms)
        self._microphone = Microphone(Gate(), canceller)
        self._microphone.connect(self._room)
        self._activity, self._recogniser = activity, recogniser
        self._to_ears = StreamResampler(RATE_HZ, HEARD_HZ)
        self._framer = Framer(VAD_FRAME_SAMPLES)
        self._listener = Listener(config.listen)
        self._kept = PreRoll(KEPT_S * HEARD_HZ, HEARD_HZ)
        self._now_ms = 0.0
        self._number = 0

    async def hear_out(self, speech: Speech) -> Alone:
        """A reply that nobody speaks over."""
        reply = self._begin(speech)
        await self._tick(reply)
        while len(reply.unsent) or self._room.playout.busy:
            await self._tick(reply)
        await self._rest(reply)
        voiced = np.array(reply.probabilities) >= self._config.listen.start_probability
        longest = max(map(len, "".join(" x"[each] for each in voiced.astype(int)).split()), default=0)
        cuts = int(reply.cut_at_ms is not None)
        return Alone(len(voiced), int(voiced.sum()), longest * FRAME_MS, reply.pauses, cuts)

    async def speak_over(self, speech: Speech, remark: Remark, level_db: float) -> Over:
        """A reply over which somebody says this, so much louder than the voice of the reply."""
        reply = self._begin(speech)
        while self._played_ms(reply) < LISTENED_MS:
            await self._tick(reply)
        said = as_loud_as_the_voice(remark.samples[: round(LONGEST_REMARK_S * RATE_HZ)])
        self._room.speak(said * np.float32(10 ** (level_db / 20)), RATE_HZ)
        onset_at_ms = self._now_ms + remark.onset_s * 1000
        await self._let_pass(len(said) * 1000 / RATE_HZ + PAUSE_MS, reply)
        self._room.playout.forget()
        await self._rest(reply)
        paused_ms, cut_ms = (
            None if at_ms is None else at_ms - onset_at_ms for at_ms in (reply.paused_at_ms, reply.cut_at_ms)
        )
        return Over(remark.name, paused_ms, cut_ms, reply.heard)

    def _begin(self, speech: Speech) -> _Reply:
        self._number += 1
        reply = _Reply(
            str(self._number),
            speech,
            resample(speech.samples, speech.rate_hz, RATE_HZ),
            TurnKeeper(self._config.turn, playing=lambda: self._said(reply)),
            Transcriber(self._recogniser, tick_ms=self._config.asr.tick_ms),
        )
        turn, _ = reply.keeper.client_turn()
        reply.keeper.on_reply_heard(turn)
        return reply

    async def _rest(self, reply: _Reply) -> None:
        """The room calms down."""
        await self._let_pass(PAUSE_MS, reply)
        self._room.playout.settle()
        self._listener.rearm()

    async def _let_pass(self, ms: float, reply: _Reply) -> None:
        until_ms = self._now_ms + ms
        while self._now_ms < until_ms:
            await self._tick(reply)

    async def _tick(self, reply: _Reply) -> None:
        """Ten milliseconds pass."""
        self._send(reply)
        self._room.step()
        self._now_ms += BLOCK_MS
        for pcm in self._microphone.collect(self._now_ms / 1000):
            for frame in self._framer.push(self._to_ears.push(WIRE.decode(pcm))):
                await self._hear(frame, reply)

    def _send(self, reply: _Reply) -> None:
        playout = self._room.playout
        while len(reply.unsent) and not reply.paused and playout.waiting_ms < LEAD_MS:
            due = BLOCK_MS * RATE_HZ // 1000
            playout.push(reply.item, reply.unsent[:due])
            reply.unsent = reply.unsent[due:]
            if not len(reply.unsent):
                playout.finish(reply.item)

    async def _hear(self, frame: NDArray[np.float32], reply: _Reply) -> None:
        self._kept.push(frame)
        reply.probabilities += await self._activity.push([frame])
        now, listener, keeper = self._now_ms / 1000, self._listener, reply.keeper
        events = listener.push(reply.probabilities[-1])
        reply.transcriber.push(frame, listener.voiced, listener.clear)
        actions = [action for event in events for action in keeper.on_voice(event, now)]
        actions += keeper.on_frame(listener.position, listener.last_speech, now)
        if partial := await reply.transcriber.update():
            reply.heard = f"{partial.stable} {partial.unstable}".strip()
            actions += keeper.on_partial(partial, now)
        while actions:
            actions += await self._do(actions.pop(0), reply)

    async def _do(self, action: Action, reply: _Reply) -> list[Action]:
        """Do what the keeper wants done, as far as there is no answer in it; returns what follows from it."""
        match action:
            case Hear(start):
                preroll = self._config.listen.preroll_ms * HEARD_HZ // 1000
                reply.transcriber.begin(self._kept.cut(start - preroll))
            case FinishHearing(until):
                final = await reply.transcriber.finish(until)
                reply.heard = final.text
                return reply.keeper.on_final(final, self._now_ms / 1000)
            case ForgetHeard():
                reply.transcriber.forget()
            case PausePlayback():
                reply.paused, reply.pauses = True, reply.pauses + 1
                reply.paused_at_ms = reply.paused_at_ms or self._now_ms
            case ResumePlayback():
                reply.paused = False
            case Cut():
                reply.cut_at_ms, reply.unsent = self._now_ms, reply.unsent[:0]
                self._room.playout.forget()
        return []

    def _played_ms(self, reply: _Reply) -> float:
        return self._room.playout.played_ms(reply.item)

    def _said(self, reply: _Reply) -> str:
        """The words that have begun to leave for the loudspeaker."""
        speech, sent_ms = reply.speech, self._played_ms(reply) + self._room.playout.waiting_ms
        begun = sum(start_ms < sent_ms for start_ms in speech.starts_ms)
        end = speech.text.find(" ", begun)
        return speech.text if end < 0 else speech.text[:end]


async def rehearse(
    setting: Setting,
    scene: Callable[[Setting], Scene],
    alone: Sequence[Speech],
    spoken_over: Sequence[Speech],
    remarks: Sequence[Remark],
    levels_db: Sequence[float],
) -> Rehearsal:
    """Some replies that nobody speaks over; then, in a room of its own for each level, one with every remark."""
    quiet = scene(setting)
    itself = [await quiet.hear_out(speech) for speech in alone]
    over: dict[float, Sequence[Over]] = {}
    for level_db in levels_db:
        room = scene(setting)
        over[level_db] = [
            await room.speak_over(speech, remark, level_db)
            for speech, remark in zip(cycle(spoken_over), remarks, strict=False)
        ]
    return Rehearsal(setting, itself, over)


def render_rehearsals(rehearsals: Sequence[Rehearsal]) -> Table:
    """A row for each room, and in it one for each level of the remarks."""
    table = titled(
        "Spoken over, without a clock",
        "Voiced: frames of 32 ms taken for speech while nobody speaks, and the longest run of them.\n"
        "Self: replies that this paused and cut. Paused, cut: how many remarks did, and the median ms\n"
        "from their onset. A remark at 0 dB is as loud as the reply's voice.",
    )
    for column in ("echo dB", "late ms", "voiced", "run ms", "self", "remark dB", "paused", "ms", "cut", "ms"):
        table.add_column(column, justify="right")
    for each in rehearsals:
        alone = each.alone
        itself = f"{sum(one.pauses for one in alone)}, {sum(one.cuts for one in alone)}"
        voiced = f"{sum(one.voiced for one in alone)}/{sum(one.frames for one in alone)}"
        longest = f"{max((one.longest_ms for one in alone), default=0.0):.0f}"
        head = (f"{each.setting.gain_db:g}", f"{each.setting.delay_ms:g}", voiced, longest, itself)
        for level_db, remarks in each.over.items():
            paused, cut = ([one.paused_ms for one in remarks], [one.cut_ms for one in remarks])
            table.add_row(*head, f"{level_db:g}", *_times(paused), *_times(cut))
            head = ("", "", "", "", "")
    return table


def _times(times: Sequence[float | None]) -> tuple[str, str]:
    """How many there are, and their median."""
    known = [each for each in times if each is not None]
    return f"{len(known)}/{len(times)}", f"{np.median(known):.0f}" if known else "-"
