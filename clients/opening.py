"""A server in this process, opened as fast as it goes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pipeline.config import Config
from pipeline.interpreter import starting
from pipeline.store import Store

if TYPE_CHECKING:
    from server.app import Server
    from server.keys import Keys


async def open_server(stack: AsyncExitStack, config: Config, store: Store, keys: Keys | None = None) -> Server:
    """A running server, closed with the stack. Raises what entering a ``Server`` does."""
    with starting():
        from server.listening import take_port

        # What cannot be served is said before anything is loaded; the server takes the port for good.
        take_port(config.server, keys is not None and keys.required)[0].close()
        from pipeline.backends.loader import begin_loading
        from server.voices.hibari import voice_of

        loading = await asyncio.to_thread(begin_loading, config, store)
        voice = await asyncio.to_thread(voice_of, config, loading.cores)
        stack.callback(voice.close)
        # What is left to import takes a second, while models and voice are loaded.
        await asyncio.gather(voice.load(), asyncio.to_thread(__import__, "server.app"))
        from server.app import Server

        server = Server(config, keys=keys, store=store, voice=voice, loading=loading)
        return await stack.enter_async_context(server)
