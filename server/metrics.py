"""Metrics for Prometheus: what the turns' records tell, and what can be seen of the server when it is asked.

Every server has a registry of its own. No label takes a value that a client can choose.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from pipeline.channel import Backlog
from pipeline.timing import Mark, TurnRecord

if TYPE_CHECKING:
    from server.health import ServerState

QUEUES = ("inbound_audio", "speech", "outbox")
CLOSE_CODES = (1000, 1001, 1005, 1006, 1009, 1011, 1013)
ANSWER_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
PART_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0)
LAG_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)
ENTROPY_BITS = (1.0, 2.0, 3.0, 3.5, 3.75, 4.0, 4.25, 4.5, 4.75, 5.0, 5.25, 5.5, 6.0, 8.0)
Z_SCORES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0)


class Metrics:
    """One server's figures: told of turns and sessions as they end, and asked for the text of a scrape."""

    def __init__(self, state: Callable[[], ServerState]) -> None:
        self._registry = registry = CollectorRegistry()
        self._turns = _TurnMetrics(registry)
        self._lost: Tally[str] = Tally()  # pieces, by the queues of sessions that are over
        self._states_dropped: dict[str, int] = {}  # by the sessions that are going on
        counter, histogram = _makers(registry)
        self._loop_lag = histogram("loop_lag_seconds", "How late the event loop calls what is due", LAG_S)
        self._closed = counter("sessions_closed", "Conversations over, by WebSocket close code", "code")
        self._refused = counter("sessions_refused", "Clients sent away, by error code", "code")
        registry.register(_AtThisMoment(state, self._lost))
        ProcessCollector(registry=registry)

    def turn_over(self, session_id: str, record: TurnRecord) -> None:
        """A turn's record is complete."""
        before = self._states_dropped.get(session_id, 0)
        self._states_dropped[session_id] = max(before, record.states_dropped)
        self._turns.note(record, self._states_dropped[session_id] - before)

    def session_over(self, session_id: str, close_code: int | None, backlogs: Iterable[Backlog]) -> None:
        """A conversation has ended; from now on its queues are not seen any more."""
        self._states_dropped.pop(session_id, None)
        self._closed.labels(str(close_code) if close_code in CLOSE_CODES else "other").inc()
        self._lost.update({backlog.queue: backlog.dropped for backlog in backlogs})

    def refused(self, code: str) -> None:
        """A client was sent away."""
        self._refused.labels(code).inc()

    def note_loop_lag(self, lag_s: float) -> None:
        """The event loop was so late."""
        self._loop_lag.observe(lag_s)

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """The content type and the text, in the format that the ``Accept`` header asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


class _TurnMetrics:
    """What is counted a turn."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, histogram = _makers(registry)
        self._turns = counter("turns", "Turns, by what ended them and how the reply ended", "ended_by", "status")
        self._voice_to_voice = histogram(
            "voice_to_voice_seconds", "From the last sample of speech to the first sound of the reply", ANSWER_S
        )
        self._response = histogram("response_seconds", "From a request to the first sound of the reply", ANSWER_S)
        self._parts = histogram("turn_part_seconds", "Where the time to the first sound went", PART_S, "part")
        self._asr_lag = histogram("asr_lag_seconds", "Sound that the final transcript had not heard yet", PART_S)
        self._drafts = counter("drafts", "Replies prepared before the turn was over", "outcome")
        self._drafted = counter("drafted_tokens", "Tokens generated for drafts and replies up to the commit")
        self._wasted = counter("wasted_tokens", "Tokens generated for drafts that were dropped")
        self._prefilled = counter("prefilled_tokens", "Tokens read")
        self._cropped = counter("cropped_tokens", "Tokens read and dropped from the cache again")
        self._replied = counter("reply_tokens", "Tokens of replies")
        self._audio = counter("reply_audio_seconds", "Sound made for replies")
        self._reopens = counter("turn_reopens", "Turns announced as over whose user went on")
        self._pauses = counter("reply_pauses", "Times somebody seemed to speak over a reply")
        self._entropy = histogram("state_entropy_bits", "Entropy of the memory a reply was given", ENTROPY_BITS)
        self._z_score = histogram("state_z_score", "How far it is from the usual, in spreads", Z_SCORES)
        self._sick = counter("states_dropped", "States of echoic memory dropped because they were sick")
        for mark in Mark:
            self._parts.labels(mark.value)
        for outcome in ("adopted", "wasted"):
            self._drafts.labels(outcome)

    def note(self, record: TurnRecord, states_dropped: int) -> None:
        self._turns.labels(record.ended_by or "failure", record.status).inc()
        self._note_times(record)
        self._note_drafts(record)
        self._prefilled.inc(record.prefilled_tokens)
        self._cropped.inc(record.cropped_tokens)
        self._replied.inc(record.reply_tokens)
        self._audio.inc(record.audio_s)
        self._reopens.inc(record.reopens)
        self._pauses.inc(record.pauses)
        self._sick.inc(states_dropped)
        for histogram, health in (
            (self._entropy, record.state_entropy_bits),
            (self._z_score, record.state_z_score),
        ):
            if health is not None and math.isfinite(health):  # else it is counted as dropped
                histogram.observe(health)

    def _note_times(self, record: TurnRecord) -> None:
        if (response_ms := record.response_ms()) is not None:
            self._response.observe(response_ms / 1000)
        if (voice_to_voice_ms := record.voice_to_voice_ms()) is None:
            return
        self._voice_to_voice.observe(voice_to_voice_ms / 1000)
        self._asr_lag.observe(record.asr_lag_ms / 1000)
        for part, took_ms in record.parts():
            self._parts.labels(part).observe(took_ms / 1000)

    def _note_drafts(self, record: TurnRecord) -> None:
        self._drafted.inc(record.drafted_tokens)
        self._wasted.inc(record.wasted_tokens)
        if record.typed:
            return
        replied = Mark.TURN_END_DECIDED in record.marks
        self._drafts.labels("adopted").inc(replied and record.adopted)
        self._drafts.labels("wasted").inc(max(0, record.drafts - replied))


class _AtThisMoment(Collector):
    """What is not counted but seen, and the losses of queues that are still there."""

    def __init__(self, state: Callable[[], ServerState], lost: Tally[str]) -> None:
        self._state, self._lost = state, lost

    def collect(self) -> Iterator[Metric]:
        """The families of one scrape."""
        state = self._state()
        yield _gauge("sessions", "Conversations going on", state.sessions)
        yield _gauge("sessions_limit", "Conversations that may go on at once", state.max_sessions)
        yield _gauge("speech_connections", "Clients of the speech socket", state.speech_connections)
        yield _gauge("full", "Whether one more conversation would be refused", state.full)
        yield _gauge("cores_share", "How much of the cores' time the models took", state.share)
        if state.self_test is not None:
            yield _gauge("self_test_passed", "Whether the last self-test was answered", state.self_test.passed)
            yield _gauge("self_test_age_seconds", "How long ago it ended", state.self_test_age_s)
        yield from self._queues(state.backlogs)

    def _queues(self, backlogs: Iterable[Backlog]) -> Iterator[Metric]:
        longest, lost = dict.fromkeys(QUEUES, 0.0), self._lost.copy()
        for backlog in backlogs:
            longest[backlog.queue] = max(longest[backlog.queue], backlog.waiting_ms)
            lost[backlog.queue] += backlog.dropped
        waiting = GaugeMetricFamily("echoic_queue_seconds", "Sound in the longest queue", labels=["queue"])
        dropped = CounterMetricFamily("echoic_queue_dropped", "Pieces lost to a full queue", labels=["queue"])
        for queue in QUEUES:
            waiting.add_metric([queue], longest[queue] / 1000)
            dropped.add_metric([queue], lost[queue])
        yield waiting
        yield dropped


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"echoic_{name}", about, value)


def _makers(registry: CollectorRegistry) -> tuple[Callable[..., Counter], Callable[..., Histogram]]:
    """What makes a counter from name, help and labels, and a histogram from name, help, buckets and labels."""

    def counter(name: str, about: str, *labels: str) -> Counter:
        return Counter(f"echoic_{name}", about, labels, registry=registry)

    def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"echoic_{name}", about, labels, registry=registry, buckets=buckets)

    return counter, histogram
