"""The log of the sockets: it never holds what is said over them."""

from __future__ import annotations

import logging


def socket_log() -> logging.Logger:
    """For websockets, which at the level DEBUG logs headers and messages: keys, sound and words."""
    log = logging.getLogger("echoic.socket")
    log.setLevel(max(logging.INFO, log.getEffectiveLevel()))
    return log
