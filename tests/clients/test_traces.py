"""Searching a server for what was said."""

from __future__ import annotations

from clients.traces import kept_by, own_texts
from tests.server.scripted import scripted_server


async def test_what_a_server_holds_before_anybody_speaks_is_no_trace_of_them() -> None:
    async with scripted_server() as server:
        own = own_texts(server)
        assert kept_by(server, ["for the"], ())
        assert not kept_by(server, ["for the"], (), own)


async def test_words_that_it_holds_afterwards_are_a_trace() -> None:
    async with scripted_server() as server:
        own = own_texts(server)
        setattr(server, "left", ["My aunt has just moved"])  # noqa: B010
        assert kept_by(server, ["has just moved"], (), own)
