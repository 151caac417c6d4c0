"""A real server on real sockets whose models are scripted: the language model repeats what it was told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from pipeline.config import load_config
from pipeline.cores import Cores
from pipeline.ports import LanguageModel, Prompt, Speech, Token
from server.app import Server
from server.keys import Keys
from tests.pipeline.conversation import ScriptedActivity, ScriptedModel, ScriptedRecogniser, ScriptedTurnEnd
from tests.server.test_speech import ToneVoice


class EchoModel(ScriptedModel):
    """Answers with the user's last words; may be told to wait before each."""

    def __init__(self, cost: float = 0.0) -> None:
        super().__init__("", cost)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def generate(self, prompt: Prompt, max_tokens: int) -> AsyncGenerator[Token, None]:
        for number, word in enumerate(prompt.messages[-1].text.split()):
            await asyncio.sleep(self.cost)
            await self.go_on.wait()
            yield Token(number, word + " ")


class LoadedVoice(ToneVoice):
    """A tone that needs no loading."""

    async def load(self) -> None: ...

    async def speak(self, phrase: str, speed: float = 1.0) -> Speech:
        self.asked.clear()
        return await super().speak(phrase, speed)


def scripted_server(*, keys: Keys | None = None, model: LanguageModel | None = None, **settings: Any) -> Server:
    """A server whose settings are given as ``limits__session_s=1``."""
    config = load_config(overrides={key.replace("__", "."): value for key, value in settings.items()})
    models = SimpleNamespace(
        cores=Cores(2),
        vad=SimpleNamespace(open=lambda: ScriptedActivity([])),
        turn_end=ScriptedTurnEnd(0.5, 0.0),
        recogniser=ScriptedRecogniser([], 0.0),
        language_model=model or EchoModel(),
    )
    return Server(config, keys=keys, models=cast(Any, models), voice=cast(Any, LoadedVoice()))


class Caller:
    """A client that speaks JSON and nothing else."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, kind: str, **body: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **body}))

    async def receive(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(await self.socket.recv())
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        """The next event of this type."""
        async with asyncio.timeout(20):
            while (event := await self.receive())["type"] != kind:
                pass
        return event

    async def ask(self, text: str, **response: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.send("response.create", response=response)

    async def closing(self) -> tuple[int | None, str | None]:
        """Read to the end; how the server closed."""
        async with asyncio.timeout(20):
            with suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code, self.socket.close_reason


@asynccontextmanager
async def calling(url: str, **options: Any) -> AsyncIterator[Caller]:
    """A connection that ends by itself where the server ends it."""
    socket = await connect(url, compression=None, close_timeout=1, **options)
    try:
        yield Caller(socket)
    finally:
        await socket.close()


@asynccontextmanager
async def stopping_in_mid_reply() -> AsyncIterator[tuple[Server, Caller, asyncio.Event]]:
    """A server that was told to stop while a caller's reply waits for the event to be set."""
    model = EchoModel()
    server = await scripted_server(model=model).__aenter__()
    async with calling(server.realtime_url) as caller:
        model.go_on.clear()
        await caller.ask("Hello", output_modalities=["text"])
        await caller.until("conversation.item.done")
        stopping = asyncio.create_task(server.__aexit__(None, None, None))
        await asyncio.sleep(0.05)  # long enough to cut what is not let end
        yield server, caller, model.go_on
        await stopping
