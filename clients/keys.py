"""Single key presses from a terminal, whose settings are put back whatever happens."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clients.microphone import Gate

# While a key is held down terminals repeat it, after half a second at the latest and many times a second then.
FIRST_REPEAT_S = 0.6
REPEAT_S = 0.2


class TalkKey:
    """Push-to-talk on a keyboard that tells of presses only: hold it, or tap it to begin and again to end.

    A key that repeats is being held, and is let go when the repeats stop.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._pressed_at = float("-inf")
        self._let_go: asyncio.TimerHandle | None = None

    def press(self) -> None:
        """The key was pressed, or repeats; the first press switches push-to-talk on."""
        loop = asyncio.get_running_loop()
        repeats = self._gate.talking and loop.time() - self._pressed_at < FIRST_REPEAT_S
        self._pressed_at = loop.time()
        self._gate.push_to_talk = True
        if self._let_go is not None:
            self._let_go.cancel()
        if repeats:
            self._let_go = loop.call_later(REPEAT_S, self._end)
        else:
            self._gate.talking = not self._gate.talking

    def _end(self) -> None:
        self._gate.talking = False


@contextmanager
def key_presses(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call ``on_key`` for every key while the block runs; gives False where there is no such terminal."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C still ends it
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            on_key(key)

    try:
        tty.setcbreak(descriptor)  # keys come at once and unseen; Ctrl-C stays an interrupt
        loop.add_reader(descriptor, read)
        yield True
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
