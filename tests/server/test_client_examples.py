"""The examples of docs/clients.md, run as they stand there; only the server's address is another."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import get_args

import pytest
from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent

from pipeline.backends.loader import Models
from pipeline.config import Config
from server.app import Server
from server.voices.hibari import HibariVoice
from tests.server.asking import question
from tests.server.browser import browsing, recording, until
from tests.server.scripted import EchoModel, scripted_server

PAGE = (Path(__file__).parents[2] / "docs/clients.md").read_text(encoding="utf-8")
PRINTED = "127.0.0.1:8080"
PIECE_BYTES, PIECE_S = 960, 0.02
ASKED = "What is the capital of France?"
PLAYS = """
globalThis.pieces = 0;
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (when) {
  globalThis.pieces++;
  start.call(this, when);
};
"""
# Asks for a long reply, and tells what it went through.
CALLER = """
import { connect } from "./reconnecting.mjs";
const told = [], words = [];
connect(process.argv[2], "any", (event, socket) => {
  told.push(event.type);
  if (event.type === "session.created") {
    const content = [{ type: "input_text", text: "heron ".repeat(12) }];
    const item = { type: "message", role: "user", content };
    socket.send(JSON.stringify({ type: "conversation.item.create", item }));
    socket.send(JSON.stringify({ type: "response.create" }));
  }
  if (event.type === "response.output_audio.delta") process.stderr.write("sound\\n");
  if (event.type === "response.output_audio_transcript.delta") words.push(event.delta);
  if (event.type !== "response.done") return;
  console.log(JSON.stringify({ told, words: words.join("").trim().split(" ") }));
  process.exit(0);
});
"""


def example(heading: str, language: str) -> str:
    """The first piece of code in this language under the heading."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    code: str = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)[0]
    return code


def program(folder: Path, name: str, code: str, server: Server | None = None) -> Path:
    """The code as a file that reaches this server."""
    file = folder / name
    file.write_text(code.replace(PRINTED, f"127.0.0.1:{server.port}") if server else code)
    return file


def node() -> list[str]:
    """The command that runs JavaScript; what Node 22 has by itself, 20 has on request."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("node is not installed")
    major = int(
        subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout[1:].split(".")[0]
    )
    if major < 20:
        pytest.skip(f"node {major} has no WebSocket")
    return [path, "--no-warnings", *(["--experimental-websocket"] if major < 22 else [])]


async def speak(program: Process, pcm: bytes) -> None:
    """Be the microphone: say it in real time, and be silent from then on."""
    assert program.stdin is not None
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        program.stdin.write(pcm[:PIECE_BYTES].ljust(PIECE_BYTES, b"\0"))
        pcm, due = pcm[PIECE_BYTES:], due + PIECE_S
        await asyncio.sleep(due - loop.time())


async def answer(command: list[str], pcm: bytes) -> tuple[str, bytes]:
    """What a program writes and plays in answer to what is said to it."""
    program = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert program.stdout is not None
    assert program.stderr is not None
    speaking, played = asyncio.create_task(speak(program, pcm)), bytearray()
    try:
        async with asyncio.timeout(60):
            written = asyncio.create_task(program.stderr.readline())
            while not written.done():
                hearing = asyncio.create_task(program.stdout.read(65_536))
                await asyncio.wait([hearing, written], return_when=asyncio.FIRST_COMPLETED)
                if hearing.done():
                    played += hearing.result()
                else:
                    hearing.cancel()
            return (await written).decode(), bytes(played)
    finally:
        speaking.cancel()
        program.kill()
        await program.communicate()


@pytest.mark.models
@pytest.mark.parametrize("language", ["python", "js"])
async def test_a_pipe_is_spoken_to_and_answers(
    language: str, models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    runs = {"python": ("Python", "talk.py", lambda: [sys.executable]), "js": ("Node", "talk.mjs", node)}
    heading, name, command = runs[language]
    async with Server(Config(), models=models, voice=voice) as server:
        file = program(tmp_path, name, example(heading, language), server)
        said, played = await answer([*command(), str(file)], await question(voice, ASKED))
    assert re.search("[a-z]{2}", said), said
    assert len(played) > 24_000
    assert any(played)


@pytest.mark.models
async def test_the_page_is_spoken_to_and_answers(
    models: Models, voice: HibariVoice, tmp_path: Path, site: str
) -> None:
    sound = await recording(voice, tmp_path / "question.wav", 1.0, ASKED, 8.0)
    async with Server(Config(), models=models, voice=voice) as server, browsing(tmp_path, sound) as page:
        program(tmp_path, "talk.html", example("Browser", "html"), server)
        await page.add_init_script(PLAYS)
        await page.goto(f"{site}/talk.html")
        await page.click("#talk")
        await until(page, "document.querySelector('#reply').textContent.length > 1")
        assert await page.evaluate("pieces") > 10


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of a web server of somebody else's, with the files of this folder."""
    (tmp_path / "favicon.ico").touch()
    files = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


class Network:
    """A way to a server that can break."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ways: list[asyncio.StreamWriter] = []

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._ways += [writer, far_writer]
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def cut(self) -> None:
        """Everything breaks at once; what is built anew holds."""
        for way in self._ways:
            way.transport.abort()
        self._ways.clear()


@asynccontextmanager
async def network(server: Server) -> AsyncIterator[tuple[Network, int]]:
    """A network in front of the server, and the port at which it is entered."""
    made = Network(server.port)
    async with await asyncio.start_server(made.carry, "127.0.0.1", 0) as entrance:
        yield made, entrance.sockets[0].getsockname()[1]
        made.cut()


async def test_a_client_whose_network_breaks_comes_back_and_misses_no_word(tmp_path: Path) -> None:
    command = node()
    program(tmp_path, "reconnecting.mjs", example("Come back after a lost connection", "js"))
    caller = program(tmp_path, "caller.mjs", CALLER)
    async with scripted_server(model=EchoModel(0.02)) as server, network(server) as (way, port):
        url = f"ws://127.0.0.1:{port}/v1/realtime"
        running = await asyncio.create_subprocess_exec(*command, str(caller), url, stdout=PIPE, stderr=PIPE)
        assert running.stderr is not None
        async with asyncio.timeout(60):
            assert await running.stderr.readline() == b"sound\n"
            way.cut()
            out, errors = await running.communicate()
    assert running.returncode == 0, errors.decode()
    report = json.loads(out)
    assert "echoic.resumed" in report["told"]
    assert report["told"].count("session.created") == 1
    assert report["words"] == ["Heron", *["heron"] * 11]


def test_every_example_speaks_of_events_that_there_are() -> None:
    unions = (get_args(get_args(union)[0]) for union in (RealtimeClientEvent, RealtimeServerEvent))
    known = {
        kind for union in unions for event in union for kind in get_args(event.model_fields["type"].annotation)
    }
    code = "\n".join(re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL))
    named = set(re.findall(r'"((?:session|input_audio_buffer|response|conversation|echoic)\.[a-z_.]+)"', code))
    assert {"input_audio_buffer.append", "response.output_audio.delta"} <= named
    assert named <= known | {"echoic.session", "echoic.resumed"}
