"""The state codec: hidden states of a frozen decoder-only model to a few small slots, and back.

Shapes: ``B`` rows, ``n`` tokens, ``k`` slots a segment, ``d`` the model's width, ``c`` numbers a slot (d / 16).

Encoder: a linear projection of the normalised states at the input of layer L (initialised to their principal
components), neighbours merged by Ward's criterion until k slots are left (Ward 1963; the mass of a token is
learned), and a k-sparse gate (Makhzani & Frey, arXiv:1312.5663) whose selection is trained through the gate's
sigmoid. Decoder: see FUSION_MODES. Concatenating the state to the channels is not offered: a frozen layer L+1
has no weights for more channels than d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

FusionMode = Literal["attention_slots", "cross_attention", "additive"]
FUSION_MODES: tuple[FusionMode, ...] = get_args(FusionMode)

# A token whose mass were zero would be indistinguishable from an empty slot.
_MIN_MASS = 0.02
# Held while the codec learns: left to the loss it sinks below what recovers most.
_GAIN = 1.2


class CodecError(Exception):
    """The state codec cannot do what was asked: what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The sizes of a codec. ``layer``: how many of the model's layers lie below the state."""

    d_model: int
    layer: int
    compression_ratio: float = 1 / 16
    slots: int = 8
    keep: float = 2 / 3  # share of a slot's numbers that the gate lets through
    window: int = 3
    fusion_mode: FusionMode = "attention_slots"
    heads: int = 4  # of cross_attention
    readers: int = 4  # layers that cross_attention reads at

    def __post_init__(self) -> None:
        if self.fusion_mode not in FUSION_MODES:
            raise CodecError(f"fusion_mode {self.fusion_mode!r} is unknown: use one of {', '.join(FUSION_MODES)}")
        if self.code_dims < 1 or self.slots < 1 or self.window < 1 or not 0 < self.keep <= 1:
            raise CodecError(f"a codec of no size makes no sense: {self}")

    @property
    def code_dims(self) -> int:
        """Numbers a slot, ``c``."""
        return round(self.d_model * self.compression_ratio)

    @property
    def kept_dims(self) -> int:
        """Numbers a slot that are not zero."""
        return max(1, round(self.code_dims * self.keep))

    @property
    def window_slots(self) -> int:
        """Slots in a full window."""
        return self.slots * self.window


def merge_neighbours(sums: Tensor, mass: Tensor, codes: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Append tokens one by one to k slots, each time merging the two neighbours that lose least by it.

    ``sums`` [B, k, c] and ``mass`` [B, k]: weighted sums and masses so far, empty slots (mass 0) on the left;
    ``codes`` [B, n, c] and ``weights`` [B, n] (0 for padding, on the left): the tokens. The loss of a merge is
    Ward's, the growth of the variance within slots; an empty slot costs nothing and so goes first. The result
    depends on the order of the tokens only, not on how they are cut into calls.
    """
    place = torch.arange(sums.shape[1], device=sums.device)
    for code, weight in zip(codes.unbind(1), weights.unbind(1), strict=True):
        sums = torch.cat([sums, (code * weight[:, None])[:, None]], 1)
        mass = torch.cat([mass, weight[:, None]], 1)
        at = _cheapest_pair(sums.detach(), mass.detach())[:, None]
        stays, moves = (
            (place <= at).to(mass.dtype),
            (place >= at).to(mass.dtype),
        )  # both where the pair becomes one
        sums = sums[:, :-1] * stays[..., None] + sums[:, 1:] * moves[..., None]
        mass = mass[:, :-1] * stays + mass[:, 1:] * moves
    return sums, mass


def _cheapest_pair(sums: Tensor, mass: Tensor) -> Tensor:
    means = sums / mass.clamp(min=_MIN_MASS)[..., None]
    distance = (means[:, 1:] - means[:, :-1]).square().sum(-1)
    left, right = mass[:, :-1], mass[:, 1:]
    return (distance * left * right / (left + right).clamp(min=_MIN_MASS)).argmin(1)


class StateEncoder(nn.Module):
    """Hidden states at the input of layer L to the slots of a segment."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.center = nn.Parameter(torch.zeros(config.d_model))
        self.project = nn.Linear(config.d_model, config.code_dims, bias=False)
        self.salience = nn.Linear(config.d_model, 1)
        self.gate_slope = nn.Parameter(torch.ones(config.code_dims))
        self.gate_bias = nn.Parameter(torch.full((config.code_dims,), 0.5))
        nn.init.zeros_(self.salience.weight)
        nn.init.zeros_(self.salience.bias)

    def codes(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """``hidden`` [B, n, d] to one code a token [B, n, c] and its mass [B, n] in (0, 1)."""
        hidden = hidden.to(self.center.dtype)
        normal = functional.rms_norm(hidden, (hidden.shape[-1],)) - self.center
        return self.project(normal), self.salience(normal).squeeze(-1).sigmoid().clamp(min=_MIN_MASS)

    def gate(self, slots: Tensor) -> Tensor:
        """Scale every number by a learned gate and zero all but the ``kept_dims`` with the widest gates."""
        score = self.gate_slope * slots.abs() + self.gate_bias
        gated = slots * score.sigmoid()
        kept = self.config.kept_dims
        if kept == self.config.code_dims:
            return gated
        chosen = torch.zeros_like(slots).scatter(-1, score.topk(kept, -1).indices, 1.0)
        return gated * chosen

    def empty(self, rows: int = 1) -> tuple[Tensor, Tensor]:
        """Sums [B, k, c] and masses [B, k] of segments of which nothing was heard yet."""
        zero = self.center.new_zeros(rows, self.config.slots, self.config.code_dims)
        return zero, zero[..., 0]

    def forward(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Whole segments: ``hidden`` [B, n, d], ``mask`` [B, n] (padding on the left, 0).

        Gives gated slots [B, k, c], empty ones on the left, and which of them hold something [B, k].
        """
        codes, weights = self.codes(hidden)
        sums, mass = merge_neighbours(*self.empty(len(hidden)), codes, weights * mask)
        return self.seal(sums, mass), mass > 0

    def seal(self, sums: Tensor, mass: Tensor) -> Tensor:
        """The gated slots [B, k, c] of weighted sums and masses; empty slots are zero."""
        means = sums / mass.clamp(min=_MIN_MASS)[..., None]
        return self.gate(means) * (mass > 0)[..., None]


class SlotReader(nn.Module):
    """Attention of its own over the slots, for one layer of the stream; starts by looking for likeness."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.heads, width, code = config.heads, config.d_model, config.code_dims
        self.look = nn.Linear(width, code, bias=False)
        self.query = nn.Linear(code, code * self.heads, bias=False)
        self.key = nn.Linear(code, code * self.heads, bias=False)
        self.place = nn.Parameter(torch.zeros(config.window_slots, code))
        self.rest = nn.Parameter(torch.zeros(self.heads))
        self.mix = nn.Linear(code * self.heads, code, bias=False)
        self.expand = nn.Linear(code, width, bias=False)

    @torch.no_grad()
    def start_from(self, axes: Tensor, scale: Tensor) -> None:
        """Begin as attention in the space of the codes; ``axes`` [c, d] and ``scale`` lead there and back."""
        same = torch.eye(len(axes)).repeat(self.heads, 1).to(axes)
        self.look.weight.copy_(axes)
        self.query.weight.copy_(same + 0.1 * torch.randn_like(same))
        self.key.weight.copy_(same + 0.1 * torch.randn_like(same))
        self.mix.weight.copy_(same.T / self.heads)
        self.expand.weight.copy_(axes.T * scale * 0.1)

    def forward(self, stream: Tensor, slots: Tensor, log_weights: Tensor) -> Tensor:
        """What was read [B, n, d], from a stream [B, n, d], slots [B, k, c] and log-weights [B, k]."""
        codes = self.look(functional.rms_norm(stream.to(slots.dtype), (stream.shape[-1],)))
        query, key = self._heads(self.query(_even(codes))), self._heads(self.key(_even(slots) + self.place))
        logits = query @ key.transpose(-1, -2) * slots.shape[-1] ** -0.5 + log_weights[:, None, None]
        # A resting place: a head that finds nothing of use in the state need not read it.
        rest = self.rest[None, :, None, None].expand(len(stream), -1, logits.shape[2], 1)
        weights = torch.cat([rest, logits], -1).softmax(-1)[..., 1:]
        read = (weights @ slots[:, None]).transpose(1, 2).flatten(2)
        added: Tensor = self.expand(self.mix(read))
        return added

    def _heads(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:-1], self.heads, -1).transpose(1, 2)


def _even(codes: Tensor) -> Tensor:
    return functional.rms_norm(codes, (codes.shape[-1],), eps=1e-6)


class StateDecoder(nn.Module):
    """Slots back into the model from the input of layer L+1 on, in the way that ``fusion_mode`` names.

    - ``attention_slots``: slots are decoded to width d and stand as virtual positions behind the first token,
      in the upper layers only; the frozen attention reads them. Weights act as log-weights on its logits, with
      one ``gain`` for all slots: what the frozen layers normalise cannot ask for more attention by itself.
    - ``cross_attention``: the decoder's own attention reads the slots, at some of the upper layers, and adds what
      it read to the stream.
    - ``additive``: one vector, the weighted mean of the slots, is added to every position of the stream.
    """

    gain: Tensor

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        if config.fusion_mode == "cross_attention":
            self.readers = nn.ModuleList(SlotReader(config) for _ in range(config.readers))
            return
        self.expand = nn.Linear(config.code_dims, config.d_model, bias=False)
        if config.fusion_mode == "attention_slots":
            self.offset = nn.Parameter(torch.zeros(config.d_model))
            self.register_buffer("gain", torch.full((1,), _GAIN))
        else:
            self.place = nn.Parameter(torch.ones(config.window_slots, config.code_dims))

    @torch.no_grad()
    def start_from(self, axes: Tensor, center: Tensor, scale: Tensor) -> None:
        """Begin as the way back from the codes; modes that add to the stream begin softly."""
        if self.config.fusion_mode == "attention_slots":
            self.expand.weight.copy_(axes.T * scale)
            self.offset.copy_(center * scale)
        elif self.config.fusion_mode == "additive":
            self.expand.weight.copy_(axes.T * scale * 0.1)
        else:
            for reader in self.readers:
                reader.start_from(axes, scale)  # type: ignore[operator]

    def hidden(self, slots: Tensor) -> Tensor:
        """``attention_slots``: hidden states [B, k, d] of the virtual positions, from slots [B, k, c]."""
        hidden: Tensor = self.expand(slots) + self.offset
        return hidden

    def forward(self, stream: Tensor, slots: Tensor, log_weights: Tensor, reader: int = 0) -> Tensor:
        """What to add to the stream [B, n, d], from slots [B, k, c] with log-weights [B, k] (-inf: empty)."""
        if self.config.fusion_mode == "additive":
            weights = log_weights.softmax(-1).nan_to_num()[..., None]  # a row may be empty
            added: Tensor = self.expand((slots * self.place * weights).sum(1, keepdim=True))
        else:
            added = self.readers[reader](stream, slots, log_weights)
        return added.to(stream.dtype)


class StateCodec(nn.Module):
    """An encoder and its decoder: all that is ever trained."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = StateEncoder(config)
        self.decoder = StateDecoder(config)

    def resized(self, slots: int | None = None, keep: float | None = None) -> StateCodec:
        """The same weights with other sizes; another number of slots is for ``attention_slots`` only."""
        config = self.config
        if slots not in (None, config.slots) and config.fusion_mode != "attention_slots":
            raise CodecError(f"{config.fusion_mode} is trained for {config.slots} slots, not for {slots}")
        other = StateCodec(replace(config, slots=slots or config.slots, keep=keep or config.keep))
        other.load_state_dict(self.state_dict())
        return other.eval().requires_grad_(False)

    @torch.no_grad()
    def start_from(self, states: Tensor) -> None:
        """Initialise to the principal components of ``states`` [N, d], a sample from the input of layer L."""
        states = states.float()
        scale = states.square().mean(-1).sqrt().median()
        normal = functional.rms_norm(states, (states.shape[-1],))
        center = normal.mean(0)
        covariance = (normal - center).T @ (normal - center) / len(normal)
        axes = torch.linalg.eigh(covariance).eigenvectors.flip(-1)[:, : self.config.code_dims].T
        self.encoder.center.copy_(center)
        self.encoder.project.weight.copy_(axes)
        spread = self.encoder.project(normal - center).std(0)
        self.encoder.gate_slope.copy_(1 / spread.clamp(min=1e-3))
        self.decoder.start_from(axes, center, scale)
