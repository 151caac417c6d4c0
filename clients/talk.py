"""A talk: one person at a microphone and a loudspeaker, one Realtime session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from audio.devices import KINDS, DeviceError, silence_hint
from audio.echo import Canceller
from audio.format import AudioError
from audio.soundcard import Ends
from clients.hearing import Hearing, Reply
from clients.loudspeaker import Loudspeaker
from clients.memory import MEMORY_EVENT
from clients.microphone import ZEROS_S, Gate, Microphone
from clients.realtime import RealtimeClient, ServerEvent, ServerGone
from clients.resuming import LOST_EVENT, RESUMED_EVENT
from clients.uplink import BLOCK_MS
from clients.view import Line, Screen, View
from pipeline.timing import loop_clock

SOUND_S = 0.01  # between two looks at the devices' buffers
SHOW_S = 0.05
WATCH_S = 0.25
RETRY_S = 2.0

# Opens the devices; the argument says whether it is because one has gone.
OpenEnds = Callable[[bool], Ends]


class Talk:
    """Carries sound and events between devices, server and screen until ``stop``, or until the server ends it.

    A device that vanishes is replaced by the default one; the session and what waits to be said are kept.
    """

    def __init__(
        self, client: RealtimeClient, open_ends: OpenEnds, screen: Screen, gate: Gate, canceller: Canceller | None
    ) -> None:
        self.view = View(gate)
        self.hearing = Hearing()
        self.microphone = Microphone(gate, canceller)
        self.loudspeaker = Loudspeaker(self.microphone)
        self._client = client
        self._open_ends = open_ends
        self._screen = screen
        self._ends: Ends | None = None
        self._stopped = asyncio.Event()
        self._hinted = False
        self._complaint = ""
        self._ending: Reply | None = None  # over for the server, and still to be heard

    def stop(self) -> None:
        """End the talk; ``run`` returns."""
        self._stopped.set()

    async def run(self) -> None:
        """Talk. Raises DeviceError when there is no device to begin with, ServerGone when the session breaks."""
        await self._client.configure(audio={"input": {"transcription": {"model": "default"}}})
        await self._open(again=False)
        self._tell("listening to “{}”, speaking through “{}”".format(*self.view.devices))
        try:
            async with asyncio.TaskGroup() as work:
                tasks = [
                    work.create_task(loop())
                    for loop in (self._run_sound, self._run_events, self._run_devices, self._run_screen)
                ]
                await self._stopped.wait()
                for task in tasks:
                    task.cancel()
        except* (ServerGone, AudioError) as failed:
            raise failed.exceptions[0] from None
        finally:
            if self._ends is not None:
                await asyncio.to_thread(self._ends.close)

    # --- loops ---

    async def _run_sound(self) -> None:
        """Both directions of sound; deadlines are absolute, so that a late look is made up for."""
        due = loop_clock()
        while True:
            if self._ends is not None:
                now = loop_clock()
                for pcm in self.microphone.collect(now):
                    await self._client.append(pcm)
                for told in self.loudspeaker.poll(now):
                    await self._client.send(told)
            due = max(due + SOUND_S, loop_clock())
            await asyncio.sleep(due - loop_clock())

    async def _run_events(self) -> None:
        async for event in self._client:
            self._take(event)
        raise ServerGone("the server ended the session")

    async def _run_devices(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if self._ends is not None and (direction := self._ends.gone()):
                self._tell(f"the {KINDS[direction]} “{self._ends.name(direction)}” has gone")
                await self._replace()
            elif self.microphone.zeros_s > ZEROS_S and not self._hinted:
                self._hinted = True
                self._tell(silence_hint())

    async def _run_screen(self) -> None:
        while True:
            self._look()
            self._screen.update(self.view)
            await asyncio.sleep(SHOW_S)

    # --- devices ---

    async def _open(self, *, again: bool) -> None:
        self._ends = ends = await asyncio.to_thread(self._open_ends, again)
        self.microphone.connect(ends)
        self.loudspeaker.connect(ends)
        self.view.devices = (ends.name("input"), ends.name("output"))

    async def _replace(self) -> None:
        """Another device in the place of one that has gone, as soon as there is one."""
        before, self._ends = self._ends, None
        assert before is not None
        await asyncio.to_thread(before.close)
        while not await self._reopened():  # noqa: ASYNC110  # a plug makes no event
            await asyncio.sleep(RETRY_S)
        self._tell("now using “{}” and “{}”".format(*self.view.devices))

    async def _reopened(self) -> bool:
        try:
            await self._open(again=True)
        except DeviceError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                self._tell(f"{error}; trying again")
            return False
        self._complaint = ""
        return True

    # --- what is shown ---

    def _take(self, event: ServerEvent) -> None:
        before = len(self.hearing.errors)
        self.hearing.push(event)
        self.loudspeaker.push(event)
        for reply in self.hearing.replies[-1:]:
            reply.pieces.clear()  # it lies in the playout; a talk may last for days
        for error in self.hearing.errors[before:]:
            self._tell(error)
        match event.type:
            case kind if kind == MEMORY_EVENT:
                self.view.memory.push(event)
            case kind if kind == LOST_EVENT:
                self.view.away = True
                self._tell("the connection is lost, trying again")
            case kind if kind == RESUMED_EVENT:
                self.view.away = False
                self._tell(
                    f"the connection is back after {event.body['away_ms'] / 1000:.1f} s{self._missing(event)}"
                )
            case "conversation.item.input_audio_transcription.completed":
                self._add(Line("you", event.body["transcript"].strip()))
            case "response.created":
                self._end_reply()
            case "response.done":
                self._ending = self.hearing.replies[-1]

    def _missing(self, resumed: ServerEvent) -> str:
        """What did not survive a broken connection; "" if everything did."""
        unsent = self._client.take_lost_blocks() * BLOCK_MS / 1000
        lost = [f"{unsent:.1f} s of what you said"] if unsent else []
        lost += ["some of the reply"] if resumed.body["lost_events"] else []
        return f", without {' and '.join(lost)}" if lost else ""

    def _end_reply(self) -> None:
        """The reply that is over becomes a line."""
        reply, self._ending = self._ending, None
        if reply is None:
            return
        if reply.status == "failed":
            self._tell(f"the reply failed: {reply.error}")
            return
        said = self.loudspeaker.said_text if reply.status == "cancelled" else reply.text
        self._add(Line("echoic", said.strip(), reply.text[len(said) :].strip()))

    def _tell(self, notice: str) -> None:
        self._add(Line("", notice))

    def _add(self, line: Line) -> None:
        if line.text or line.unheard:
            self._screen.add(line)

    def _look(self) -> None:
        """Write down how things stand."""
        view, hearing, speaker = self.view, self.hearing, self.loudspeaker
        view.input_db, view.output_db = self.microphone.level_db, self.microphone.speaker_db
        view.user_speaking = hearing.user_speaking
        view.stable, view.unstable = (hearing.current, hearing.unstable) if hearing.user_speaking else ("", "")
        view.turns = speaker.turns
        view.memory_left_s = view.memory.left_s(loop_clock())
        view.said, view.unsaid = "", ""
        if self._ends is None:
            return
        view.gaps = speaker.gaps
        view.overruns, view.underruns = self._ends.counters.overruns, self._ends.counters.underruns
        view.delay_ms = self.microphone.delay_ms
        if self._ending and not speaker.playout.busy:
            self._end_reply()
        if hearing.open_reply or self._ending:
            view.said = speaker.said_text
            view.unsaid = speaker.spoken.text[len(view.said) :]
