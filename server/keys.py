"""Keys: who may use the server, and the short-lived secrets that its own users hand on to their apps."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.ports import InputError

KEY_VARIABLE = "ECHOIC_API_KEY"
SHORTEST_KEY = 16
SECRET_PREFIX = "ek_"
MOST_SECRETS = 1_000
MIN_SECRET_S, MAX_SECRET_S = 10, 7_200
# A browser sends the key as a WebSocket subprotocol, which has to be an HTTP token.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who may come in: ``owner`` stands for the key, and ``session`` is what a secret was made for."""

    owner: bytes = b""
    session: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Secret:
    """A short-lived key and the second since the epoch at which it expires."""

    value: str
    expires_at: int


class Keys:
    """The keys that open the server; with none of them, everybody may come in. Only digests are kept."""

    def __init__(self, keys: Iterable[str] = (), now: Callable[[], float] = time.time) -> None:
        self._digests = [_digest(key) for key in keys]
        self._now = now
        self._secrets: dict[bytes, tuple[int, Visitor]] = {}

    @property
    def required(self) -> bool:
        """Whether a key is needed at all."""
        return bool(self._digests)

    def visitor(self, given: str) -> Visitor | None:
        """Whose key this is, or None; it takes equally long for every key of the server."""
        digest = _digest(given)
        expires_at, holder = self._secrets.get(digest, (0, Visitor()))
        if self._now() < expires_at:
            return holder
        if self.is_own(given):
            return Visitor(digest if self.required else b"")
        return None

    def is_own(self, given: str) -> bool:
        """Whether this is one of the server's own keys, no client secret; where none is needed, any is."""
        digest = _digest(given)
        known = [hmac.compare_digest(digest, one) for one in self._digests]
        return any(known) or not self.required

    def new_secret(self, owner: Visitor, lasts_s: int, session: Mapping[str, Any]) -> Secret:
        """A key for one of the owner's apps, for sessions that begin as ``session`` says.

        At most a thousand are kept, the oldest go first.
        """
        now = self._now()
        expires_at = int(now) + min(max(lasts_s, MIN_SECRET_S), MAX_SECRET_S)
        self._secrets = {key: kept for key, kept in self._secrets.items() if kept[0] > now}
        while len(self._secrets) >= MOST_SECRETS:
            del self._secrets[next(iter(self._secrets))]
        value = SECRET_PREFIX + secrets.token_urlsafe(32)
        self._secrets[_digest(value)] = (expires_at, Visitor(owner.owner, dict(session)))
        return Secret(value, expires_at)


def read_keys(file: Path | None, environ: Mapping[str, str]) -> Keys:
    """The keys in a file, one a line (``#`` begins a comment), and the one in ``ECHOIC_API_KEY``.

    Raises InputError for a file that cannot be read or holds none, and for a key that cannot be one.
    """
    keys = [key] if (key := environ.get(KEY_VARIABLE, "").strip()) else []
    if file is not None:
        try:
            lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"keys: cannot read {file}: {error}") from error
        keys += [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise InputError(f"keys: there is none in {file}")
    for number, key in enumerate(keys, start=1):
        if len(key) < SHORTEST_KEY or not _TOKEN.fullmatch(key):
            raise InputError(
                f"keys: number {number} cannot be used: a key has {SHORTEST_KEY} characters or more, letters, "
                "digits and -._~ (one is made by: python -c 'import secrets; print(secrets.token_urlsafe())')"
            )
    return Keys(keys)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
