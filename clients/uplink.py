"""Uplink: recordings spoken into a session in real time, as a microphone would."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, WIRE, RealtimeClient, ServerGone
from pipeline.timing import loop_clock

BLOCK_MS = 20
BLOCK_SAMPLES = RATE_HZ * BLOCK_MS // 1000


class Uplink:
    """Sends 20 ms blocks by absolute deadlines: what was given to ``speak``, and silence otherwise.

    A block leaves once its last sample has been spoken, as from a sound card. Deadlines come from the number of
    samples sent, so a late block is caught up with and nothing drifts. Positions are seconds of sound since the
    session began; ``pace`` 2.0 speaks twice as fast as life (for trials; its latencies mean nothing).
    """

    def __init__(self, client: RealtimeClient, pace: float = 1.0) -> None:
        self.latest_ms = 0.0
        self._client = client
        self._pace = pace
        self._began_at = loop_clock()
        self._blocks_begun = 0  # blocks whose sound is settled; the last one may be waiting for its time
        self._sent_at = array("d")
        self._waiting = np.zeros(0, np.float32)

    @property
    def position_s(self) -> float:
        """How much sound was sent."""
        return len(self._sent_at) * BLOCK_MS / 1000

    def speak(self, sound: NDArray[np.float32]) -> float:
        """Queue speech, float32 mono at 24 kHz; returns the position at which it begins, which is never past."""
        begins = (self._blocks_begun * BLOCK_SAMPLES + len(self._waiting)) / RATE_HZ
        self._waiting = np.concatenate([self._waiting, sound.astype(np.float32, copy=False)])
        return begins

    async def run(self) -> None:
        """Send until cancelled, or until the server is gone (whoever reads the session reports that)."""
        with suppress(ServerGone):
            while True:
                await self._send_block()

    def spoken_at(self, position_s: float) -> float:
        """The loop's time at which this position is spoken."""
        return self._began_at + position_s / self._pace

    def sent_at(self, position_s: float) -> float:
        """The loop's time at which the block with this position left; the latest block's for what is to come."""
        if not self._sent_at:
            return self.spoken_at(position_s)
        return self._sent_at[min(max(int(position_s * 1000 / BLOCK_MS), 0), len(self._sent_at) - 1)]

    def position_at(self, time: float) -> float:
        """The position that is spoken at this time of the loop."""
        return (time - self._began_at) * self._pace

    async def _send_block(self) -> None:
        block = self._next_block()
        due = self.spoken_at(self._blocks_begun * BLOCK_MS / 1000)
        await asyncio.sleep(max(due - loop_clock(), 0.0))
        self.latest_ms = max(self.latest_ms, (loop_clock() - due) * 1000)
        await self._client.append(WIRE.encode(block))
        self._sent_at.append(loop_clock())

    def _next_block(self) -> NDArray[np.float32]:
        block = np.zeros(BLOCK_SAMPLES, np.float32)
        speech, self._waiting = self._waiting[:BLOCK_SAMPLES], self._waiting[BLOCK_SAMPLES:]
        block[: len(speech)] = speech
        self._blocks_begun += 1
        return block


@asynccontextmanager
async def open_uplink(client: RealtimeClient, pace: float = 1.0) -> AsyncIterator[Uplink]:
    """An uplink that sends for as long as the block runs; its failure is raised at the end of the block."""
    uplink = Uplink(client, pace)
    sending = asyncio.create_task(uplink.run())
    try:
        yield uplink
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        if not sending.cancelled():
            sending.result()
