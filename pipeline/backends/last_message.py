"""The last message of a prompt as the model reads it: where it begins, its state, and what was made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.ports import Exchange

if TYPE_CHECKING:
    import torch

    from codec.memory import Said
    from codec.window import FusedState, SegmentState
    from pipeline.backends.model_codec import ModelCodec


@dataclass(slots=True)
class LastMessage:
    """``begin``: tokens before its words. ``state`` it is read with, ``prepared`` for the decoder.

    ``rows``: hidden states ``[width]`` of the tokens from ``begin`` on; the first ``words`` of them are the
    message, and from ``reply_at`` on they are the reply.
    """

    begin: int = 0
    state: FusedState | None = None
    prepared: Any = None
    rows: list[torch.Tensor] = field(default_factory=list)
    words: int = 0
    reply_at: int | None = None
    _said: Said | None = None
    _said_rows: int = 0

    def read(self, held: int, states: torch.Tensor | None) -> None:
        """Tokens were read behind ``held`` others; ``states`` are theirs, where there is a codec."""
        if states is not None:
            self.rows += states[max(0, self.begin - held) :]

    def reply_from(self, words_end: int, reply_at: int) -> None:
        """Its words end and a reply begins at these places of the sequence, once as much is read."""
        self.words, self.reply_at = words_end - self.begin, reply_at - self.begin

    def crop(self, held: int) -> None:
        """Only the first ``held`` tokens of the cache are left."""
        left = max(0, held - self.begin)
        del self.rows[left:]
        if self.reply_at is not None and left < self.reply_at:
            self.reply_at = None
        if self._said_rows > len(self.rows):
            self._said, self._said_rows = None, 0

    def said(self, codec: ModelCodec | None) -> tuple[SegmentState, ...]:
        """All rows being words: the message as segments, of which only the newest words are encoded."""
        from codec.memory import Said

        if codec is None:
            return ()
        self._said = codec.grow(self._said or Said(), self.rows[self._said_rows :])
        self._said_rows = len(self.rows)
        return self._said.segments

    def exchange(self) -> Exchange | None:
        """The rows of the words and of the reply; None before a reply and without a codec."""
        if self.reply_at is None or not self.rows or len(self.rows) < self.reply_at:
            return None
        return Exchange(self.rows[: self.words], self.rows[self.reply_at :])

    def wipe(self) -> None:
        """Overwrite the hidden states with zeros, for whoever still holds them."""
        import torch

        with torch.inference_mode():
            for row in self.rows:
                row.zero_()
        if self._said is not None:
            self._said.wipe()
