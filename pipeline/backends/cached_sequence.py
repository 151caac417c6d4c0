"""The tokens of one conversation whose keys and values are held, and the rule by which they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pipeline.backends.decoders import Decoder, Piece
from pipeline.backends.last_message import LastMessage
from pipeline.ports import StageError

if TYPE_CHECKING:
    from codec.window import FusedState


class CachedSequence:
    """What a decoder holds, as tokens; used in the model's own thread.

    Whoever wants a prompt read brings all of it; what the cache shares with it as a prefix is kept, the rest is
    cropped, and only the difference is computed. Dropping a draft, reopening a turn and adopting a draft are all
    this one rule. A state is part of the rule: tokens from the last message on are kept only under the state they
    were read with, and tokens before it are read without any.
    """

    def __init__(self, new_decoder: Callable[[], Decoder]) -> None:
        self._new_decoder = new_decoder
        self.decoder: Decoder | None = new_decoder()
        self.ids: list[int] = []
        self.message = LastMessage()

    def enter_message(self, begin: int, state: FusedState | None, prepare: Callable[[], Any]) -> None:
        """The prompt's last message begins behind so many tokens and is read with this state, once prepared."""
        before = self.message
        if (before.begin, before.state) == (begin, state):
            return
        # Where the state ends the words are the same, but they were read as something else.
        unread = min(begin, before.begin if before.state is not None else begin)
        self.keep_prefix(self.ids[:unread])
        self.message = LastMessage(begin, state, prepare())
        if self.decoder is not None:
            self.decoder.inject(self.message.prepared)

    def keep_prefix(self, ids: list[int]) -> int:
        """Crop the cache to what it shares with ``ids`` and return how many tokens that is."""
        kept = common(self.ids, ids)
        if kept < len(self.ids) and self.decoder is not None:
            self.decoder.crop(kept)
            del self.ids[kept:]
            self.message.crop(kept)
        return kept

    def piece(self, ids: list[int], wanted: Iterable[int], most: int) -> Piece[Decoder]:
        """The next of ``ids``, which begin with those held: at most so many, and under one state."""
        if self.decoder is None:
            raise StageError("language model", "the conversation is closed")
        held, end = len(self.ids), len(ids)
        if self._is_before_message:
            self.decoder.inject(None)
            end = min(end, self.message.begin)
        end = min(end, held + most)
        return Piece(self.decoder, ids[held:end], [place - held for place in wanted if held <= place < end])

    def took(self, piece: Piece[Decoder]) -> bool:
        """The decoder has read its piece; False if the sequence was closed meanwhile."""
        if piece.decoder is not self.decoder:
            return False
        plain = self._is_before_message
        self.message.read(len(self.ids), piece.decoder.states)
        self.ids.extend(piece.ids)
        if plain:
            piece.decoder.inject(self.message.prepared)
        return True

    def forget(self) -> None:
        """Overwrite the last message and what follows it, their state, and what was made of them."""
        self.message.wipe()
        if self.decoder is not None:
            self.keep_prefix(self.ids[: self.message.begin])
            self.decoder.wipe()
        self.message = LastMessage(self.message.begin)

    def reset(self) -> None:
        """Begin anew: after a failure the cache may be half written, and is only known to be right when empty."""
        if self.decoder is not None:
            self.decoder, self.ids, self.message = self._new_decoder(), [], LastMessage()

    def close(self) -> None:
        """Free the memory."""
        self.decoder, self.ids, self.message = None, [], LastMessage()

    @property
    def _is_before_message(self) -> bool:
        """Whether what comes next is read without the state that the last message is read with."""
        return self.message.prepared is not None and len(self.ids) < self.message.begin


def common(ours: list[int], theirs: list[int]) -> int:
    """How many tokens two sequences begin with alike."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
