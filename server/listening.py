"""The port: taken, and with TLS where there is a certificate."""

from __future__ import annotations

import errno
import socket
import ssl

from pipeline.ports import InputError

# What the system keeps for a client that does not read, on top of the outbox: two seconds of sound.
SEND_BUFFER_BYTES = 64 * 1024


def encryption(cert: str, key: str) -> ssl.SSLContext | None:
    """TLS with a certificate and its key, PEM files; None without. Raises InputError for files that are none."""
    if not cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key or None)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"TLS: cannot use {cert} with {key or 'the key in it'}: {error}") from error
    return context


def listen(host: str, port: int) -> socket.socket:
    """A listening TCP socket. Raises InputError saying why there can be none."""
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
