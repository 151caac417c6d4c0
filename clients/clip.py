"""One recording through one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clients.hearing import Hearing
from clients.measure import ClipResult, measure_turns
from clients.realtime import RATE_HZ, RealtimeClient, ServerEvent, ServerGone, connect
from clients.recordings import Recording
from clients.uplink import Uplink, open_uplink

NO_REPLY_S = 4.0  # silence after the recording that counts as having no answer
SETTLE_S = 1.0  # after the answer, for a latency record that is still on its way
STALL_S = 20.0  # a reply, or speech that the server hears, without any news for so long is stuck
LONGEST_REPLY_S = 90.0


async def replay_clip(recording: Recording, url: str, *, pace: float = 1.0, key: str = "local") -> ClipResult:
    """Speak the recording into a fresh session in real time, then silence, until it is answered or will not be.

    Never raises for what the server does: a session that breaks is a problem in the result.
    """
    sound = recording.at(RATE_HZ)
    visit: Visit | None = None
    try:
        async with connect(url, key=key, timing=True) as client:
            await client.configure(audio={"input": {"transcription": {"model": "default"}}})
            async with open_uplink(client, pace) as uplink:
                visit = Visit(recording, uplink, begins_s=uplink.speak(sound))
                await visit.listen(client)
                return visit.result()
    except ServerGone as error:
        return visit.result(str(error)) if visit else ClipResult("", problems=(str(error),))


class Visit:
    """A recording being spoken into a session: knows when its answer is complete, or no longer to be expected.

    ``watch`` is shown every event of the session after it was taken in; ``no_reply_s`` of silence mean no answer.
    """

    def __init__(
        self,
        recording: Recording,
        uplink: Uplink,
        begins_s: float,
        watch: Callable[[ServerEvent], None] = lambda _event: None,
        no_reply_s: float = NO_REPLY_S,
    ) -> None:
        self.hearing = Hearing()
        self._no_reply_s = no_reply_s
        self._watch = watch
        self._recording = recording
        self._uplink = uplink
        self._begins_s = begins_s
        self._ends_at = uplink.spoken_at(begins_s + recording.duration_s)

    async def listen(self, client: RealtimeClient) -> None:
        """Read the session until this visit is over; it always ends. Raises ServerGone when the session breaks."""
        try:
            async with asyncio.timeout_at(self._give_up_at()) as limit:
                async for event in client:
                    self.hearing.push(event)
                    self._watch(event)
                    limit.reschedule(self._give_up_at())
        except TimeoutError:
            return
        raise ServerGone("the server ended the session before the recording was over")

    def result(self, problem: str = "") -> ClipResult:
        """Everything that was measured, and what went wrong."""
        problems = [*self.hearing.errors, *(reply.error for reply in self.hearing.replies), problem]
        if self.hearing.open_reply and not problem:
            problems.append("the reply never finished")
        return ClipResult(
            heard=self.hearing.transcript,
            turns=measure_turns(self.hearing, self._uplink, self._recording, self._begins_s),
            problems=tuple(filter(None, problems)),
            late_ms=round(self._uplink.latest_ms, 1),
        )

    def _give_up_at(self) -> float:
        """When to stop listening, unless there is news before: at once where nothing more is to be expected."""
        if self.hearing.open_reply or self.hearing.user_speaking:
            patience_s = STALL_S
        elif not self._is_answered():
            patience_s = self._no_reply_s
        else:
            patience_s = 0.0 if self.hearing.replies[-1].record else SETTLE_S
        quiet_since = max(self._ends_at, self.hearing.last_news_at)
        return min(quiet_since + patience_s, self._ends_at + LONGEST_REPLY_S)

    def _is_answered(self) -> bool:
        if not self.hearing.replies or self.hearing.user_speaking:
            return False
        end_s = self._recording.speech_end_s
        speech_end_at = self._ends_at if end_s is None else self._uplink.spoken_at(self._begins_s + end_s)
        latest = self.hearing.replies[-1]
        return latest.finished and latest.created_at >= speech_end_at
