"""Health: what a balancer is told of a server, and what an operator."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.config import load_config
from server.health import model_names
from server.self_test import Outcome
from tests.server.state import server_state

FAILED = Outcome(0.0, failed_at="language model")


@pytest.mark.parametrize(
    ("differs", "status", "ready", "alive"),
    [
        ({}, "ok", True, True),
        ({"self_test": Outcome(0.0, 400.0)}, "ok", True, True),
        ({"full": True}, "full", False, True),
        ({"self_test": FAILED}, "failing", False, False),
        ({"self_test": FAILED, "full": True}, "failing", False, False),
        ({"stopping": True, "self_test": FAILED}, "stopping", False, True),
    ],
)
def test_only_a_server_that_works_and_has_room_is_sent_somebody_and_only_a_broken_one_is_restarted(
    differs: dict[str, Any], status: str, ready: bool, alive: bool
) -> None:
    state = server_state(**differs)
    assert (state.status, state.ready, state.alive) == (status, ready, alive)


def test_the_report_says_how_the_last_self_test_went_and_how_long_ago() -> None:
    passed = server_state(self_test=Outcome(0.0, 412.3), self_test_age_s=61.04).report()
    failed = server_state(self_test=FAILED, self_test_age_s=5).report()
    assert passed["self_test"] == {"passed": True, "age_s": 61.0, "answered_in_ms": 412}
    assert failed["self_test"] == {"passed": False, "age_s": 5, "failed_at": "language model"}
    assert server_state().report()["self_test"] is None


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("smollm2-135m-instruct", "smollm2-135m-instruct"),
        ("/home/ann/models/secret-plan/", "secret-plan"),
        ("someone/some-model", "some-model"),
        ("openai:http://ann:password@10.0.0.1/v1#llama3.2", "llama3.2"),
    ],
)
def test_a_model_is_named_without_where_it_is(model: str, name: str) -> None:
    assert model_names(load_config(overrides={"llm.model": model}))["llm"] == name
