"""Metrics: what turn records and sessions become in the text of a scrape."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.channel import Backlog
from pipeline.timing import EndedBy, Mark, TurnRecord
from server.health import ServerState
from server.metrics import Metrics
from server.self_test import Outcome
from tests.server.state import server_state


class Scraped:
    """A server's metrics, by name and labels."""

    def __init__(self, state: ServerState | None = None) -> None:
        self.state = state or server_state()
        self.metrics = Metrics(lambda: self.state)

    def __call__(self, name: str, **labels: str) -> float | None:
        _, text = self.metrics.scrape("text/plain")
        samples = (one for family in text_string_to_metric_families(text.decode()) for one in family.samples)
        found = (one.value for one in samples if (one.name, one.labels) == (f"echoic_{name}", labels))
        return next(found, None)


def spoken(turn: int = 1, **figures: Any) -> TurnRecord:
    """A question that was answered 0.45 s after its end."""
    marks = {Mark.PAUSE_SEEN: 10.1, Mark.TURN_END_DECIDED: 10.4, Mark.FIRST_AUDIO_SENT: 10.45}
    usual: dict[str, Any] = {"speech_end_at": 10.0, "ended_by": EndedBy.EVIDENCE, "marks": marks, "drafts": 1}
    return TurnRecord(turn, **{**usual, **figures})


def test_a_turn_is_counted_by_what_ended_it_and_how_its_reply_did() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken())
    scraped.metrics.turn_over("a", spoken(2, status="cancelled"))
    scraped.metrics.turn_over("b", spoken(1, ended_by=None, status="failed", marks={}))
    assert scraped("turns_total", ended_by="evidence", status="completed") == 1
    assert scraped("turns_total", ended_by="evidence", status="cancelled") == 1
    assert scraped("turns_total", ended_by="failure", status="failed") == 1


def test_the_parts_of_a_turn_add_up_to_voice_to_voice() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken())
    parts = [scraped("turn_part_seconds_sum", part=mark.value) or 0.0 for mark in Mark]
    assert scraped("voice_to_voice_seconds_sum") == pytest.approx(0.45)
    assert sum(parts) == pytest.approx(0.45)
    assert scraped("voice_to_voice_seconds_bucket", le="0.4") == 0
    assert scraped("voice_to_voice_seconds_bucket", le="0.5") == 1


def test_a_reply_that_the_client_asked_for_counts_from_its_request() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken(typed=True))
    assert scraped("voice_to_voice_seconds_count") == 0
    assert scraped("response_seconds_sum") == pytest.approx(0.05)


def test_a_reply_that_was_never_heard_has_no_latency() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken(marks={Mark.TURN_END_DECIDED: 10.4}))
    assert (scraped("voice_to_voice_seconds_count"), scraped("asr_lag_seconds_count")) == (0, 0)


@pytest.mark.parametrize(
    ("figures", "adopted", "wasted"),
    [
        ({"drafts": 3, "adopted": True}, 1, 2),
        ({"drafts": 3, "adopted": False}, 0, 2),  # the last one was prepared after the decision: no draft
        ({"drafts": 2, "adopted": True, "marks": {}}, 0, 2),  # reopened, and never answered
        ({"drafts": 1, "typed": True}, 0, 0),
    ],
)
def test_drafts_are_adopted_or_wasted(figures: dict[str, Any], adopted: int, wasted: int) -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken(drafted_tokens=30, wasted_tokens=12, **figures))
    assert scraped("drafts_total", outcome="adopted") == adopted
    assert scraped("drafts_total", outcome="wasted") == wasted
    assert (scraped("drafted_tokens_total"), scraped("wasted_tokens_total")) == (30, 12)


def test_dropped_states_are_told_a_session_and_counted_once() -> None:
    scraped = Scraped()
    for session, so_far in [("a", 0), ("a", 2), ("b", 1), ("a", 2), ("a", 3)]:
        scraped.metrics.turn_over(session, spoken(states_dropped=so_far))
    assert scraped("states_dropped_total") == 4


def test_the_memorys_health_is_there_where_there_was_a_memory() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken())
    scraped.metrics.turn_over("a", spoken(2, state_entropy_bits=4.4, state_z_score=0.9))
    assert (scraped("state_entropy_bits_sum"), scraped("state_z_score_count")) == (4.4, 1)


def test_a_state_that_is_no_number_does_not_spoil_the_sum() -> None:
    scraped = Scraped()
    scraped.metrics.turn_over("a", spoken(state_entropy_bits=math.nan, state_z_score=math.inf, states_dropped=1))
    scraped.metrics.turn_over("a", spoken(2, state_entropy_bits=4.4, state_z_score=0.9, states_dropped=1))
    assert (scraped("state_entropy_bits_sum"), scraped("state_z_score_sum")) == (4.4, 0.9)
    assert scraped("states_dropped_total") == 1


def test_of_many_queues_the_longest_is_shown_and_losses_outlive_their_session() -> None:
    first, second = Backlog("inbound_audio", 400.0, 3), Backlog("inbound_audio", 1_500.0, 2)
    scraped = Scraped(server_state(backlogs=(first, second)))
    assert scraped("queue_seconds", queue="inbound_audio") == 1.5
    assert scraped("queue_dropped_total", queue="inbound_audio") == 5
    scraped.state = server_state(backlogs=(first,))
    scraped.metrics.session_over("b", 1000, [second])
    assert scraped("queue_seconds", queue="inbound_audio") == 0.4
    assert scraped("queue_dropped_total", queue="inbound_audio") == 5


def test_a_close_code_that_a_client_made_up_makes_no_label_of_its_own() -> None:
    scraped = Scraped()
    for code in (1000, 4321, 4322, None):
        scraped.metrics.session_over("a", code, [])
    assert scraped("sessions_closed_total", code="1000") == 1
    assert scraped("sessions_closed_total", code="other") == 3


def test_the_self_test_is_absent_until_there_was_one() -> None:
    assert Scraped()("self_test_passed") is None
    scraped = Scraped(server_state(self_test=Outcome(0.0, failed_at="speech"), self_test_age_s=7))
    assert (scraped("self_test_passed"), scraped("self_test_age_seconds")) == (0, 7)


def test_loop_lag_can_be_read_as_a_percentile() -> None:
    scraped = Scraped()
    for lag_s in [0.0005] * 98 + [0.04] * 2:
        scraped.metrics.note_loop_lag(lag_s)
    assert scraped("loop_lag_seconds_bucket", le="0.001") == 98
    assert scraped("loop_lag_seconds_bucket", le="0.05") == 100


def test_two_servers_in_one_process_share_nothing() -> None:
    one, other = Scraped(), Scraped()
    one.metrics.turn_over("a", spoken())
    assert other("voice_to_voice_seconds_count") == 0


def test_a_scraper_that_wants_openmetrics_gets_it() -> None:
    kind, text = Scraped().metrics.scrape("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert (kind.partition(";")[0], text.endswith(b"# EOF\n")) == ("application/openmetrics-text", True)
