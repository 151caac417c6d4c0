"""The microphone's way to the server: without echo, behind a gate, in blocks of 20 ms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.ducking import Suspicion
from audio.echo import Canceller, EchoPath
from audio.framer import Framer
from audio.playout import Playout
from audio.soundcard import Ends
from clients.realtime import RATE_HZ, WIRE
from clients.uplink import BLOCK_SAMPLES

# After the loudspeaker falls silent the room goes on for a while.
ROOM_S = 0.3
SILENT_DB = -70.0
ZEROS_S = 5.0  # of nothing but zeros, before that is worth a hint


@dataclass(slots=True)
class Gate:
    """What keeps the microphone's sound from the server: it hears silence instead."""

    muted: bool = False
    half_duplex: bool = False  # while the loudspeaker speaks nobody is heard
    push_to_talk: bool = False
    talking: bool = False  # with push-to-talk: the key is down

    def lets_through(self, speaker_busy: bool) -> bool:
        """Whether sound goes to the server now."""
        if self.muted or (self.half_duplex and speaker_busy):
            return False
        return self.talking or not self.push_to_talk


class Microphone:
    """Takes what two devices have heard and played since the last call, and makes blocks for the server of it.

    Where somebody may be speaking over the loudspeaker, that goes quieter at once.

    Positions are seconds of sound sent since the session began; devices may be exchanged in between.
    """

    def __init__(self, gate: Gate, canceller: Canceller | None) -> None:
        self.gate = gate
        self.level_db = self.speaker_db = SILENT_DB
        self.zeros_s = 0.0
        self._canceller = canceller
        self._suspicion = Suspicion(RATE_HZ)
        self._framer = Framer(BLOCK_SAMPLES)
        self._sent_samples = 0
        self._collected_at = 0.0
        self._speaker_busy_at = float("-inf")
        self._ends: Ends | None = None
        self._path: EchoPath | None = None

    def connect(self, ends: Ends) -> None:
        """Hear through these devices from now on."""
        self._ends = ends
        self._path = EchoPath(ends.microphone_hz, ends.speaker_hz, RATE_HZ, self._canceller)

    @property
    def delay_ms(self) -> float:
        """From the moment when sound is given to the loudspeaker to when it is heard again, as measured."""
        return self._path.delay_ms if self._path else 0.0

    def collect(self, now: float) -> list[bytes]:
        """The blocks that are complete now, as PCM for the wire."""
        assert self._ends is not None
        assert self._path is not None
        ends = self._ends
        heard, captured = ends.microphone.take(), ends.captured
        played, rendered = ends.reference.take(), ends.rendered
        self._note_zeros(heard, ends.microphone_hz)
        sound = self._path.push(heard, captured, played, rendered)
        if ends.playout.busy:
            self._speaker_busy_at = now
        if not self.gate.lets_through(now - self._speaker_busy_at < ROOM_S):
            sound = np.zeros_like(sound)
        self.level_db, self.speaker_db = _level(sound, self.level_db), _level(played, self.speaker_db)
        blocks = self._framer.push(sound)
        self._duck(blocks, ends.playout)
        self._sent_samples += len(blocks) * BLOCK_SAMPLES
        self._collected_at = now
        return [WIRE.encode(block) for block in blocks]

    def spoken_at(self, position_s: float) -> float:
        """The loop's time at which the sound at this position came from the device."""
        return self._collected_at - (self._sent_samples / RATE_HZ - position_s)

    def _duck(self, blocks: list[NDArray[np.float32]], playout: Playout) -> None:
        for block in blocks:
            self._suspicion.push(block)
        # Without a canceller any echo would do it.
        playout.duck(self._suspicion.raised and self._canceller is not None)

    def _note_zeros(self, heard: NDArray[np.float32], rate_hz: int) -> None:
        self.zeros_s = 0.0 if heard.any() else self.zeros_s + len(heard) / rate_hz


def _level(sound: NDArray[np.float32], before_db: float) -> float:
    """Peak level in dB full scale; without sound what it was before."""
    if not len(sound):
        return before_db
    return max(20 * float(np.log10(max(float(np.abs(sound).max()), 1e-9))), SILENT_DB)
