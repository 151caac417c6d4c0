"""The log as JSON: a line for every turn, with figures and without words."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import fields
from io import StringIO

import pytest

from pipeline.timing import EndedBy, Mark, TurnRecord
from server.turn_log import TURNS, log_as_json, log_turn

SAID = "open sesame"


@pytest.fixture
def lines() -> Iterator[StringIO]:
    """What the process logs as JSON during a test."""
    stream, root = StringIO(), logging.getLogger()
    before = list(root.handlers)
    log_as_json(stream)
    yield stream
    root.handlers[:] = before
    logging.getLogger(TURNS).setLevel(logging.NOTSET)


def test_a_turn_is_one_line_that_says_where_its_time_went(lines: StringIO) -> None:
    marks = {Mark.PAUSE_SEEN: 5.1, Mark.FIRST_AUDIO_SENT: 5.4321}
    log_turn("sess_1", TurnRecord(7, speech_end_at=5.0, ended_by=EndedBy.EVIDENCE, marks=marks, drafts=2))
    (line,) = map(json.loads, lines.getvalue().splitlines())
    assert (line["session"], line["turn"], line["drafts"]) == ("sess_1", 7, 2)
    assert (line["ended_by"], line["status"], line["voice_to_voice_ms"]) == ("evidence", "completed", 432.1)
    assert line["parts_ms"] == {"pause_seen": 100.0, "first_audio_sent": 332.1}
    assert (line["level"], line["time"][-6:]) == ("info", "+00:00")


def test_no_word_of_a_turn_is_in_its_line_whatever_the_record_comes_to_hold(lines: StringIO) -> None:
    record = TurnRecord(1)
    texts = [one.name for one in fields(TurnRecord) if isinstance(getattr(record, one.name), str)]
    for name in set(texts) - {"status"}:
        setattr(record, name, SAID)
    log_turn("sess_1", record)
    assert {"transcript", "reply"} <= set(texts)
    assert lines.getvalue().count("\n") == 1
    assert SAID not in lines.getvalue()


def test_what_is_no_number_is_null(lines: StringIO) -> None:
    log_turn("sess_1", TurnRecord(1, state_entropy_bits=math.nan, state_z_score=math.inf))
    line = json.loads(lines.getvalue(), parse_constant=pytest.fail)
    assert (line["state_entropy_bits"], line["state_z_score"]) == (None, None)


def test_a_failure_is_one_line_too_with_where_it_happened(lines: StringIO) -> None:
    try:
        raise RuntimeError("no more memory")
    except RuntimeError as bug:
        logging.getLogger("server.door").error("session ended", exc_info=bug)
    (line,) = map(json.loads, lines.getvalue().splitlines())
    assert (line["level"], line["logger"], line["message"]) == ("error", "server.door", "session ended")
    assert line["exception"].endswith("RuntimeError: no more memory")


def test_nothing_is_made_of_a_turn_while_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    log_turn("sess_1", TurnRecord(1))
    assert caplog.records == []
