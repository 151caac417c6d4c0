"""Naps: what comes while a connection is not read is read afterwards, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from server.naps import NappingConnection


@asynccontextmanager
async def connected(most_unread: int = 4) -> AsyncIterator[tuple[NappingConnection, ClientConnection]]:
    """Both ends of a connection whose server's end may nap."""
    arrived: asyncio.Future[NappingConnection] = asyncio.get_running_loop().create_future()

    async def greet(connection: ServerConnection) -> None:
        assert isinstance(connection, NappingConnection)
        arrived.set_result(connection)
        await connection.wait_closed()

    options = {"create_connection": NappingConnection, "max_queue": most_unread, "compression": None}
    async with serve(greet, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}", compression=None) as client:
            yield await arrived, client


async def test_what_comes_during_a_nap_is_read_after_it_in_order() -> None:
    async with connected() as (connection, client):
        connection.nap()
        connection.nap()
        assert not connection.transport.is_reading()
        for number in range(3):
            await client.send(str(number))
        assert [await connection.recv() for _ in range(3)] == ["0", "1", "2"]
        assert connection.transport.is_reading()


async def test_a_client_that_leaves_during_a_nap_is_noticed() -> None:
    async with connected() as (connection, client):
        connection.nap()
        await client.close()
        await connection.wait_closed()
        assert connection.close_code == 1000


async def test_after_a_nap_a_connection_whose_messages_are_not_taken_stays_unread() -> None:
    async with connected(most_unread=1) as (connection, client):
        for number in range(4):
            await client.send(str(number))
        assert await connection.recv() == "0"  # the others are there, and one of them is too many
        assert not connection.transport.is_reading()
        connection.nap()
        connection._wake()
        assert not connection.transport.is_reading()
        assert [await connection.recv() for _ in range(3)] == ["1", "2", "3"]
        assert connection.transport.is_reading()
