"""Naps: a connection that is left unread for a moment, while nothing that comes is urgent."""

from __future__ import annotations

from websockets.asyncio.server import ServerConnection

# What comes meanwhile waits in the system's buffers and is read at once: waking up costs more than reading. The
# beginning of speech is noticed later by as much, at most.
NAP_S = 0.12


class NappingConnection(ServerConnection):
    """A WebSocket that may rest from reading."""

    _napping = False

    def nap(self) -> None:
        """Read nothing for a moment; nothing is lost."""
        if not self._napping:
            self._napping = True
            self.transport.pause_reading()
            self.loop.call_later(NAP_S, self._wake)

    def _wake(self) -> None:
        self._napping = False
        if not self.recv_messages.paused:  # by itself, because what it has read is not taken: then it wakes itself
            self.transport.resume_reading()
