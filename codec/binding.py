"""The codec's file: weights in half precision, bound to the model they were trained on.

A safetensors file whose header holds the model's identity, the codec's sizes, the token prompts begin with,
and how it was trained and measured. Loading it against another model is refused with both sides named.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from codec.health import Calibration
from codec.model import CodecConfig, CodecError, StateCodec

_FORMAT = "echoic-codec-1"
_WEIGHTS = Path(__file__).parent / "weights"
_HASHED_ROWS = 16  # of every weight: enough to tell any two trainings apart, and quick on any size of model


@dataclass(frozen=True, slots=True)
class BaseModel:
    """What a codec is bound to. ``weights``: hash of the model's weights, the same for any storage precision."""

    id: str
    architecture: str
    d_model: int
    layers: int
    weights: str

    @classmethod
    def of(cls, model: Any, model_id: str) -> BaseModel:
        """The identity of a loaded model."""
        config = model.config
        return cls(
            model_id, type(model).__name__, config.hidden_size, config.num_hidden_layers, _weight_hash(model)
        )

    def __str__(self) -> str:
        return (
            f"{self.id} ({self.architecture}, d_model {self.d_model}, {self.layers} layers,"
            f" weights {self.weights[:12]})"
        )


def _weight_hash(model: Any) -> str:
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        rows = weight.detach()[:_HASHED_ROWS].to("cpu", torch.bfloat16)
        digest.update(f"{name}{tuple(weight.shape)}".encode())
        digest.update(rows.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class BoundCodec:
    """A codec with all that is needed to use it. ``card``: training data, seeds and figures."""

    codec: StateCodec
    base: BaseModel
    sink_id: int
    calibration: Calibration
    card: dict[str, Any]

    @property
    def fingerprint(self) -> bytes:
        """Eight bytes that name these weights; states are bound to them."""
        digest = hashlib.sha256()
        for _, tensor in sorted(self.codec.state_dict().items()):
            digest.update(tensor.to(torch.float16).contiguous().view(torch.uint8).numpy().tobytes())
        return digest.digest()[:8]

    def save(self, path: Path) -> None:
        """Write the file, in half precision."""
        tensors = {name: tensor.half().contiguous() for name, tensor in self.codec.state_dict().items()}
        limits = asdict(self.calibration)
        tensors["health.mean"] = limits.pop("mean").half()
        tensors["health.spread"] = limits.pop("spread").half()
        header = {
            "format": _FORMAT,
            "base": json.dumps(asdict(self.base)),
            "config": json.dumps(asdict(self.codec.config)),
            "sink_id": str(self.sink_id),
            "health": json.dumps(limits),
            "card": json.dumps(self.card),
        }
        save_file(tensors, path, metadata=header)


def load(path: Path, base: BaseModel | None = None) -> BoundCodec:
    """Read a codec file; with ``base``, refuse one that was trained on another model."""
    header, tensors = _read(path)
    bound = BaseModel(**json.loads(header["base"]))
    if base is not None and not _same(bound, base):
        raise CodecError(f"{path.name} was trained on {bound}, but the model is {base}: train a codec for it")
    health = json.loads(header["health"])
    calibration = Calibration(tensors.pop("health.mean"), tensors.pop("health.spread"), **health)
    codec = StateCodec(CodecConfig(**json.loads(header["config"])))
    codec.load_state_dict(tensors)
    return BoundCodec(
        codec.eval().requires_grad_(False), bound, int(header["sink_id"]), calibration, json.loads(header["card"])
    )


def weights_for(base: BaseModel) -> Path:
    """The codec that comes with Echoic for this model; raises CodecError if there is none."""
    for path in sorted(_WEIGHTS.glob("*.safetensors")):
        if _same(load(path).base, base):
            return path
    raise CodecError(f"no codec comes with Echoic for {base}: train one with `echoic codec train`")


def _same(one: BaseModel, other: BaseModel) -> bool:
    """The id is a name and may differ; everything that is measured must not."""
    return replace(one, id="") == replace(other, id="")


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise CodecError(f"{path} is not a codec that can be read: {error}") from error
    if header.get("format") != _FORMAT:
        raise CodecError(f"{path} is of format {header.get('format')!r}, this reads {_FORMAT!r}: train it again")
    return header, tensors
