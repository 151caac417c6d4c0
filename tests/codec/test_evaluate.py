from __future__ import annotations

import numpy as np
import pytest
import torch

from codec.dialogues import Example, Turn
from codec.evaluate import Scores, answer_age, conditions
from codec.overhead import measure_overhead
from codec.verdict import Verdict
from codec.window import SegmentState
from tests.codec import tiny


def scores(state: list[float]) -> Scores:
    losses = {"none": np.array([4.0, 6.0]), "full text": np.array([2.0, 2.0]), "state": np.array(state)}
    return Scores(losses, ages=[0, 1])  # no answers


@pytest.mark.parametrize(("state", "recovered"), [([2.0, 2.0], 1.0), ([4.0, 6.0], 0.0), ([3.0, 4.0], 0.5)])
def test_recovery_is_one_as_good_as_the_text_and_zero_as_good_as_nothing(
    state: list[float], recovered: float
) -> None:
    assert scores(state).recovery("state") == pytest.approx(recovered)


def test_a_state_that_misleads_has_a_recovery_below_zero() -> None:
    assert scores([9.0, 9.0]).recovery("state") < 0


def test_the_interval_holds_the_recovery() -> None:
    low, high = scores([2.5, 5.0]).interval("state")
    assert low <= scores([2.5, 5.0]).recovery("state") <= high


def test_two_conditions_are_compared_on_the_same_replies() -> None:
    both = scores([3.0, 4.0])
    both.losses["text, last 16 tokens"] = np.array([3.5, 5.0])
    ahead, low, high = both.ahead("state", "text, last 16 tokens")
    assert (ahead, low, high) == pytest.approx((0.25, 0.25, 0.25))  # a quarter of each reply's loss
    verdict = Verdict(slots=8, code_dims=36)
    verdict.add("recall", both)
    assert verdict.recovery["recall"]["state less text, last 16 tokens"][0] == pytest.approx(0.25)


def test_recovery_is_told_by_the_age_of_the_answer() -> None:
    assert scores([2.0, 6.0]).by_age("state") == {0: 1.0, 1: 0.0}


def test_the_age_of_an_answer_counts_from_the_newest_segment() -> None:
    said = (Turn("user", "at 7:40"), Turn("assistant", "with Hannah"), Turn("user", "in Rome"))
    assert answer_age(Example("", said, "", "", answer="Hannah")) == 1
    assert answer_age(Example("", said, "", "", answer="Rome")) == 0
    assert answer_age(Example("", said, "", "")) == -1


def test_every_control_injects_what_its_name_says() -> None:
    own = tuple(SegmentState.of(torch.full((1, 2), float(at)), 1) for at in (1, 2, 3))
    other = tuple(SegmentState.of(torch.full((1, 2), float(at)), 1) for at in (7, 8, 9))
    mean = SegmentState.of(torch.full((1, 2), 5.0), 1)
    every = conditions(3, 0.7, mean)
    assert every["state"](own, other).segments == own
    assert every["wrong state"](own, other).segments == other
    assert every["mean state"](own, other).segments == (mean,) * 3
    assert every["state, last 1"](own, other).segments == own[-1:]
    assert every["state, decay 1.0"](own, other).weights == pytest.approx([1 / 3] * 3)
    assert "state, decay 0.7" not in every


def test_overhead_is_measured_in_both_ways() -> None:
    injector = tiny.attach(tiny.build("llama"))
    cost = measure_overhead(injector, tiny.state(), [1, 5, 9], tokens=6)
    assert cost.step_ms > 0
    assert 0 < cost.extra_flops_share < 1


def test_a_verdict_is_plain_data() -> None:
    verdict = Verdict(slots=8, code_dims=36)
    verdict.add("recall", scores([3.0, 4.0]))
    figures = verdict.as_dict()
    assert figures["recovery"]["recall"]["state"][0] == 0.5
    assert figures["by_age"]["recall"] == {"0": 0.5, "1": 0.5}
    assert figures["examples"] == {"recall": 2}


def test_answers_are_scored_by_their_own_tokens() -> None:
    whole = scores([3.0, 4.0])
    assert whole.of_answers() is None
    whole.answers = {name: losses / 2 for name, losses in whole.losses.items()} | {"state": np.array([1.0, 1.0])}
    answers = whole.of_answers()
    assert answers is not None
    assert answers.recovery("state") == 1.0
    verdict = Verdict(slots=8, code_dims=36)
    verdict.add("recall", whole)
    assert verdict.recovery["recall, answers"]["state"][0] == 1.0
    assert verdict.recovery["recall"]["state"][0] == 0.5
