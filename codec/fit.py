"""From a frozen model and dialogues to a codec that is bound to it: the whole training, start to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from codec.binding import BaseModel, BoundCodec
from codec.dialogues import SYSTEMS, Example, Turn
from codec.distill import Lesson, Teacher, cached_lessons
from codec.health import Calibration
from codec.inject import Injector
from codec.model import CodecConfig, CodecError, StateCodec
from codec.prompts import Prompts
from codec.train import Recipe, Student, Trainer
from codec.window import FusedState

# Half of the lessons read a segment behind those before it, half by itself: the codec meets both in use.
_RUNNING_SHARE = 0.5
_CALIBRATED_ON = 512  # lessons


class Report(Protocol):
    """Is told how far a phase of the training is."""

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None:
        """``done`` of ``total``."""


def use_threads(count: int) -> None:
    """Let training and judging take so many CPU threads."""
    torch.set_num_threads(count)


@dataclass(frozen=True)
class Frozen:
    """A base model ready to be taught for: its weights never change."""

    model: Any
    tokenizer: Any
    base: BaseModel

    @property
    def sink_id(self) -> int:
        """The token that every prompt begins with."""
        return Prompts(self.tokenizer).prefix("Hello.")[0]


def load_frozen(source: Path | str, model_id: str, exact: bool = False) -> Frozen:
    """Load a base model. ``exact``: in float32, to judge by; otherwise in what multiplies fastest here."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    quick = device == "cuda" or torch.cpu._is_amx_tile_supported()
    dtype = torch.bfloat16 if quick and not exact else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source))
        # The plain kernel: the fused one has a slow backward pass on CPUs.
        model: Any = AutoModelForCausalLM.from_pretrained(str(source), dtype=dtype, attn_implementation="eager")
    except (OSError, ValueError) as error:
        raise CodecError(f"base model {source}: {str(error).splitlines()[0]}") from error
    model = model.to(device).eval().requires_grad_(False)
    return Frozen(model, tokenizer, BaseModel.of(model, model_id))


def fit(
    frozen: Frozen,
    examples: Sequence[Example],
    begin: CodecConfig | StateCodec,
    recipe: Recipe,
    work: Path,
    report: Report = lambda phase, done, total, note="": None,
) -> BoundCodec:
    """Train a codec, a new one or one further.

    ``work`` keeps lessons and the checkpoint: an interrupted run goes on from there. The same
    examples, beginning and recipe give the same codec on the same machine.
    """
    torch.manual_seed(recipe.seed)
    codec = (StateCodec(begin) if isinstance(begin, CodecConfig) else begin.resized()).to(frozen.model.device)
    injector = Injector(frozen.model, codec, frozen.sink_id)
    try:
        lessons = _lessons(frozen, injector, examples, work, report)
        if isinstance(begin, CodecConfig):
            codec.start_from(torch.cat([segment for lesson in lessons for segment in lesson.segments]))
        work.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(Student(injector), lessons, recipe, work / f"checkpoint-{recipe.seed}.pt")
        trainer.run(lambda step, loss: report("training", step, trainer.steps, f"loss {loss:.3f}"))
        calibration = Calibration.measure(_healthy(codec.cpu(), lessons[:_CALIBRATED_ON]))
    finally:
        injector.detach()
    card = {"recipe": asdict(recipe), "examples": len(lessons), "steps": trainer.steps}
    return BoundCodec(codec, frozen.base, frozen.sink_id, calibration, card)


def _lessons(
    frozen: Frozen, injector: Injector, examples: Sequence[Example], work: Path, report: Report
) -> list[Lesson]:
    """What the frozen model has to say about the examples."""
    done = 0

    def on_done(count: int) -> None:
        nonlocal done
        done += count
        report("reading", done, len(examples))

    teacher = Teacher(injector, Prompts(frozen.tokenizer), _RUNNING_SHARE)
    identity = f"{frozen.base.weights} layer {injector.codec.config.layer} {frozen.model.dtype} {_RUNNING_SHARE}"
    lessons = cached_lessons(work / "lessons", examples, teacher, identity, on_done)
    if not lessons:
        raise CodecError("none of the examples can be used: the data holds no user turn with a reply")
    return lessons


@torch.no_grad()
def _healthy(codec: StateCodec, lessons: Sequence[Lesson]) -> list[Tensor]:
    """The slots of every segment, as they are when all is well."""
    found = []
    for segment in (segment for lesson in lessons for segment in lesson.segments):
        slots, filled = codec.encoder(segment[None], torch.ones(1, len(segment)))
        found.append(slots[0][filled[0]])
    return found


class Reader:
    """Reads a text as a user's turn would be read: by itself, behind a system prompt."""

    def __init__(self, frozen: Frozen, bound: BoundCodec, system: str = SYSTEMS[1]) -> None:
        self._prompts, self._system = Prompts(frozen.tokenizer), system
        self._injector = Injector(frozen.model, bound.codec, bound.sink_id)

    @torch.no_grad()
    def surprise(self, text: str, state: FusedState | None = None) -> float:
        """Nats a token that the text costs the model, behind a state or behind nothing."""
        prompt = self._prompts.turns(self._system, [Turn("user", text)])
        begin, end = prompt.spans[0]
        ids = torch.tensor([prompt.ids[:end]], device=self._injector.model.device)
        cache = DynamicCache()
        with self._injector.active(None):
            self._injector.read(cache, input_ids=ids[:, : begin - 1])
        with self._injector.active(self._injector.prepare([state])):
            final = self._injector.read(cache, input_ids=ids[:, begin - 1 :])
        logits = self._injector.model.get_output_embeddings()(final)[0, :-1].float()
        return float(torch.nn.functional.cross_entropy(logits, ids[0, begin:]))

    @torch.no_grad()
    def read(self, text: str) -> Tensor:
        """The layer-L states [n, d] of its words."""
        prompt = self._prompts.turns(self._system, [Turn("user", text)])
        with self._injector.active(None, lower_only=True) as tap:
            self._injector.read(
                DynamicCache(), input_ids=torch.tensor([prompt.ids], device=self._injector.model.device)
            )
        begin, end = prompt.spans[0]
        return tap.states[0, begin:end]
