from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from codec.binding import BaseModel, BoundCodec, load, weights_for
from codec.health import Calibration
from codec.model import CodecConfig, CodecError, StateCodec
from tests.codec import tiny


@pytest.fixture(scope="module")
def base() -> BaseModel:
    return BaseModel.of(tiny.build("llama"), "tiny")


def bound(base: BaseModel) -> BoundCodec:
    torch.manual_seed(1)
    codec = StateCodec(CodecConfig(d_model=tiny.WIDTH, layer=tiny.LAYER, slots=4))
    calibration = Calibration(torch.zeros(2), torch.ones(2), 0.5, 1.5, 9.0)
    return BoundCodec(codec, base, tiny.SINK, calibration, {"seed": 3, "figures": {"recall": 0.5}})


def test_a_codec_is_read_as_it_was_written(base: BaseModel, tmp_path: Path) -> None:
    made = bound(base)
    made.save(tmp_path / "a.safetensors")
    read = load(tmp_path / "a.safetensors", base)
    for name, weight in read.codec.state_dict().items():
        torch.testing.assert_close(weight, made.codec.state_dict()[name].half().float())
    assert (read.codec.config, read.base, read.card) == (made.codec.config, base, made.card)
    assert read.calibration.highest_z == 9.0
    assert read.fingerprint == made.fingerprint


def test_the_codec_for_the_embedded_model_fits_its_budget(tmp_path: Path) -> None:
    codec = StateCodec(CodecConfig(d_model=576, layer=16))
    identity = BaseModel("smollm2-135m-instruct", "LlamaForCausalLM", 576, 30, "0" * 64)
    calibration = Calibration(torch.zeros(36), torch.ones(36), 0.5, 1.5, 9.0)
    BoundCodec(codec, identity, 1, calibration, {}).save(tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").stat().st_size <= 150_000


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("architecture", "Qwen2ForCausalLM"),
        ("d_model", 64),
        ("layers", 5),
        ("weights", "f" * 64),
    ],
)
def test_another_model_is_refused_with_both_sides_named(
    base: BaseModel, tmp_path: Path, what: str, other: object
) -> None:
    bound(base).save(tmp_path / "a.safetensors")
    theirs = replace(base, id="theirs", **{what: other})  # type: ignore[arg-type]
    with pytest.raises(CodecError, match=r"trained on tiny .* but the model is theirs"):
        load(tmp_path / "a.safetensors", theirs)


def test_the_same_weights_under_another_name_are_accepted(base: BaseModel, tmp_path: Path) -> None:
    bound(base).save(tmp_path / "a.safetensors")
    assert load(tmp_path / "a.safetensors", replace(base, id="elsewhere")).base == base


def test_any_changed_weight_makes_another_model(base: BaseModel) -> None:
    model = tiny.build("llama")
    model.model.layers[3].mlp.down_proj.weight[0, 0] += 0.5
    assert BaseModel.of(model, "tiny").weights != base.weights


def test_storage_precision_does_not_make_another_model() -> None:
    half = tiny.build("llama").to(torch.bfloat16)
    assert BaseModel.of(half, "tiny") == BaseModel.of(half.float(), "tiny")


def test_a_model_without_a_codec_is_told_how_to_get_one(base: BaseModel) -> None:
    with pytest.raises(CodecError, match="echoic codec train"):
        weights_for(base)


def test_what_is_no_codec_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(CodecError, match="not a codec that can be read"):
        load(tmp_path / "text.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(CodecError, match="format None"):
        load(tmp_path / "other.safetensors")
