"""The port: taken, and with TLS where there is a certificate."""

from __future__ import annotations

import errno
import socket
import ssl

from pipeline.config import ServerConfig
from pipeline.ports import InputError
from server.hosts import is_loopback
from server.keys import KEY_VARIABLE

# What the system keeps for a client that does not read, on top of the outbox: two seconds of sound.
SEND_BUFFER_BYTES = 64 * 1024


def take_port(settings: ServerConfig, guarded: bool) -> tuple[socket.socket, ssl.SSLContext | None]:
    """A listening socket and its TLS, if any; ``guarded`` says whether keys are asked for.

    Raises InputError for what cannot be served, in words for whoever starts the server.
    """
    if not is_loopback(settings.host) and not guarded:
        raise InputError(
            f"without a key only this machine is served, not {settings.host}: set {KEY_VARIABLE}, or name a "
            "file of keys with --keys"
        )
    secured = _encryption(settings.cert, settings.cert_key)
    return _listen(settings.host, settings.port), secured


def _encryption(cert: str, key: str) -> ssl.SSLContext | None:
    if not cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key or None)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"TLS: cannot use {cert} with {key or 'the key in it'}: {error}") from error
    return context


def _listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} on {host} is in use; choose another with --port, or 0 for any free one"
        else:
            why = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise InputError(why) from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # handed on to every connection
    return listening
