from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from codec.binding import BoundCodec, load, weights_for
from codec.dialogues import SYSTEMS
from codec.distill import Teacher, collate
from codec.evaluate import Judge, Scores
from codec.fit import Frozen, Reader, fit, load_frozen
from codec.inject import Injector
from codec.model import CodecConfig, CodecError, StateCodec
from codec.prompts import Prompts
from codec.recall import recall
from codec.train import Recipe, Student, distillation_loss
from pipeline.store import Store
from tests.codec import tiny

CONFIG = CodecConfig(d_model=tiny.WIDTH, layer=tiny.LAYER, compression_ratio=1 / 4, slots=4)
SOME = recall(24, "train", 0)
RECIPE = Recipe(epochs=2, batch=8, warmup=2)


class Stopped(Exception):
    """The run was interrupted."""


@pytest.fixture(scope="module")
def base() -> Frozen:
    texts = [turn.text for one in SOME for turn in one.segments] + [f"{one.question} {one.reply}" for one in SOME]
    return tiny.frozen([*texts, *SYSTEMS, "Hello. Yes. 7 of them?"])


def weights(bound: BoundCodec) -> list[torch.Tensor]:
    return list(bound.codec.state_dict().values())


def test_the_same_seed_gives_the_same_codec(base: Frozen, tmp_path: Path) -> None:
    one, other = (fit(base, SOME, CONFIG, RECIPE, tmp_path / name) for name in "ab")
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(one), weights(other), strict=True))
    assert one.fingerprint == other.fingerprint


def test_another_seed_gives_another_codec(base: Frozen, tmp_path: Path) -> None:
    one = fit(base, SOME, CONFIG, RECIPE, tmp_path)
    other = fit(base, SOME, CONFIG, replace(RECIPE, seed=1), tmp_path)
    assert one.fingerprint != other.fingerprint


def test_an_interrupted_run_goes_on_to_the_same_codec(
    base: Frozen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codec.train.SAVED_EVERY", 2)

    def stop(phase: str, done: int, total: int, note: str = "") -> None:
        if (phase, done) == ("training", 5):
            raise Stopped

    straight = fit(base, SOME, CONFIG, RECIPE, tmp_path / "straight")
    with pytest.raises(Stopped):
        fit(base, SOME, CONFIG, RECIPE, tmp_path / "stopped", stop)
    steps = []
    resumed = fit(
        base, SOME, CONFIG, RECIPE, tmp_path / "stopped", lambda phase, done, *_: steps.append((phase, done))
    )
    assert next(done for phase, done in steps if phase == "training") == 5
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights(resumed), weights(straight), strict=True))


def test_a_checkpoint_of_another_run_is_refused(
    base: Frozen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codec.train.SAVED_EVERY", 1)
    fit(base, SOME, CONFIG, RECIPE, tmp_path)
    with pytest.raises(CodecError, match="another run"):
        fit(base, SOME, replace(CONFIG, slots=3), RECIPE, tmp_path)


def test_a_codec_that_is_trained_further_begins_where_it_was(base: Frozen, tmp_path: Path) -> None:
    before = fit(base, SOME, CONFIG, RECIPE, tmp_path / "before")
    still = fit(base, SOME, before.codec, replace(RECIPE, rate=0.0, start="before"), tmp_path / "still")
    on = fit(base, SOME, before.codec, replace(RECIPE, start="before"), tmp_path / "on")
    assert all(torch.equal(was, now) for was, now in zip(weights(before), weights(still), strict=True))
    assert on.fingerprint != before.fingerprint


def test_the_tokens_of_an_answer_weigh_more_than_those_around_it() -> None:
    divergence, in_answer = torch.tensor([1.0, 1.0, 4.0]), torch.tensor([False, False, True])
    assert distillation_loss(divergence, in_answer, answer_weight=1.0) == 2.0
    assert distillation_loss(divergence, in_answer, answer_weight=3.0) == pytest.approx(2.8)


def test_training_leaves_the_base_model_untouched(base: Frozen, tmp_path: Path) -> None:
    before = [weight.clone() for weight in base.model.parameters()]
    fit(base, SOME, CONFIG, RECIPE, tmp_path)
    assert all(torch.equal(was, now) for was, now in zip(before, base.model.parameters(), strict=True))
    assert all(weight.grad is None for weight in base.model.parameters())
    assert not any(module._forward_pre_hooks for module in base.model.modules())


def test_lessons_say_what_the_frozen_model_says(base: Frozen) -> None:
    """The final states kept for a reply give the logits that the model gives on the whole text."""
    injector = Injector(base.model, StateCodec(CONFIG), base.sink_id)
    prompts = Prompts(base.tokenizer)
    (lesson,) = Teacher(injector, prompts).prepare(SOME[:1])
    exchange = prompts.exchange(SOME[0])
    assert lesson is not None
    assert exchange is not None
    with torch.no_grad():
        expected = base.model(torch.tensor([exchange.full.ids])).logits[0, -len(lesson.taught) - 1 : -1]
    torch.testing.assert_close(Student(injector).logits(lesson.taught), expected, atol=1e-3, rtol=1e-3)


def test_a_student_without_a_state_is_the_base_model(base: Frozen) -> None:
    injector = Injector(base.model, StateCodec(CONFIG), base.sink_id)
    (lesson,) = Teacher(injector, Prompts(base.tokenizer)).prepare(SOME[:1])
    assert lesson is not None
    with torch.no_grad():
        replied = Student(injector).reply(collate([lesson], CONFIG.window), None)
    torch.testing.assert_close(replied, lesson.untaught, atol=1e-3, rtol=1e-3)


def test_a_reader_gives_one_state_a_token_of_the_words(base: Frozen, tmp_path: Path) -> None:
    bound = fit(base, SOME, CONFIG, Recipe(epochs=1, batch=24), tmp_path)
    assert Reader(base, bound).read("Yes.").shape == (2, tiny.WIDTH)


@pytest.fixture(scope="module")
def embedded(store: Store) -> Frozen:
    return load_frozen(store.path("smollm2-135m-instruct"), "smollm2-135m-instruct")


def score(frozen: Frozen, bound: BoundCodec) -> Scores:
    injector, prompts = Injector(frozen.model, bound.codec, bound.sink_id), Prompts(frozen.tokenizer)
    teacher, examples = Teacher(injector, prompts), recall(8, "test", 0)
    lessons = [lesson for lesson in teacher.prepare(examples) if lesson]
    scores = Judge(Student(injector), teacher, prompts).score(examples, lessons, 0.7)
    injector.detach()
    return scores


@pytest.mark.models
def test_a_miniature_training_recovers_more_from_its_own_state_than_from_a_wrong_one(
    embedded: Frozen, tmp_path: Path
) -> None:
    config = CodecConfig(d_model=576, layer=16)
    bound = fit(embedded, recall(24, "train", 0), config, Recipe(epochs=3, batch=12, warmup=3), tmp_path)
    scores = score(embedded, bound)
    assert scores.recovery("state") > scores.recovery("wrong state") + 0.1


@pytest.mark.models
def test_the_weights_that_come_along_fit_the_embedded_model_and_remember(embedded: Frozen) -> None:
    scores = score(embedded, load(weights_for(embedded.base), embedded.base))
    assert scores.recovery("state") > scores.recovery("wrong state") + 0.25
    answers = scores.of_answers()
    assert answers is not None
    assert answers.recovery("state") > 0.5
    assert answers.recovery("wrong state") < 0.25
    assert scores.bytes <= 900
    assert scores.zeros >= 0.3
