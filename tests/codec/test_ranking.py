from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from codec.dialogues import SYSTEMS
from codec.inject import Injector
from codec.model import CodecConfig, StateCodec
from codec.prompts import Prompts
from codec.ranking import Ranking, rank, reply_losses
from codec.recall import recall
from codec.train import Student
from tests.codec import tiny


def test_a_ranking_tells_which_part_of_the_texts_gain_the_state_has() -> None:
    first = {"none": [1, 0, 0, 0], "state": [1, 1, 1, 0], "full text": [1, 1, 1, 1]}
    figures = Ranking({name: np.array(found, bool) for name, found in first.items()}).figures()
    assert figures["state"][0] == 0.75
    gained, low, high = figures["gained by the state"]
    assert gained == pytest.approx(2 / 3)
    assert low <= gained <= high


def test_nothing_is_gained_where_the_text_gains_nothing() -> None:
    same = np.array([True, False])
    assert Ranking({"none": same, "state": same, "full text": same}).figures()["gained by the state"] == (0, 0, 0)


@pytest.fixture(scope="module")
def student() -> tuple[Student, Prompts]:
    every = recall(12, "test", 1)
    texts = [turn.text for one in every for turn in one.segments]
    texts += [f"{one.question} {one.reply} {value}" for one in every for value in (one.answer, *one.others)]
    base = tiny.frozen([*texts, *SYSTEMS, "Hello. Yes. 7 of them?"])
    codec = StateCodec(CodecConfig(d_model=tiny.WIDTH, layer=tiny.LAYER, compression_ratio=1 / 8, slots=3)).eval()
    return Student(Injector(base.model, codec, base.sink_id)), Prompts(base.tokenizer)


def test_replies_are_as_likely_as_the_model_says(student: tuple[Student, Prompts]) -> None:
    """Read behind a context that is read once, in a batch, as each of them behind it by itself."""
    replies = [[5, 9, 2], [7, 2]]
    losses = reply_losses(student[0], [1, 4, 6], replies, None)
    for reply, loss in zip(replies, losses, strict=True):
        logits = student[0].injector.model(torch.tensor([[1, 4, 6, *reply]])).logits[0, 2:-1]
        expected = torch.nn.functional.cross_entropy(logits, torch.tensor(reply), reduction="sum")
        torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)


def test_every_way_of_being_told_is_ranked(student: tuple[Student, Prompts]) -> None:
    examples = recall(3, "test", 1)
    states = [tiny.state(seed).segments for seed in range(3)]
    ranking = rank(*student, examples, states, 0.7)
    assert ranking is not None
    assert set(ranking.first) == {"none", "full text", "state", "wrong state"}
    assert all(len(found) == 3 for found in ranking.first.values())


def test_nothing_is_ranked_where_no_value_is_asked_for(student: tuple[Student, Prompts]) -> None:
    (example,) = recall(1, "test", 1)
    assert rank(*student, [replace(example, answer="")], [tiny.state().segments], 0.7) is None
