"""The server seen from outside, on real sockets: what /healthz, /livez and /metrics tell, and whom."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import InvalidStatus

from pipeline.backends.loader import Models
from pipeline.config import Config
from server.app import Server
from server.keys import Keys, Visitor
from server.self_test import Outcome
from server.turn_log import TURNS
from server.voices.hibari import HibariVoice
from tests.server.asking import ask, client, question
from tests.server.scripted import calling, scripted_server, stopping_in_mid_reply

KEY = "k" * 32
BEARER = {"Authorization": f"Bearer {KEY}"}


async def get(server: Server, path: str, **headers: str) -> tuple[int, str]:
    """What a plain GET is answered with."""
    request = Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)

    def exchange() -> tuple[int, str]:
        try:
            with urlopen(request, timeout=10) as response:
                return response.status, response.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(exchange)


async def healthz(server: Server, **headers: str) -> tuple[int, dict[str, Any]]:
    status, body = await get(server, "/healthz", **headers)
    return status, json.loads(body)


def value(metrics: str, name: str) -> float:
    """Of the sample with this name and these labels."""
    (line,) = [line for line in metrics.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


# --- whether to send somebody ---


async def test_a_server_with_room_is_healthy_and_says_what_it_runs() -> None:
    async with scripted_server() as server, calling(server.realtime_url) as caller:
        await caller.until("session.created")
        status, told = await healthz(server)
        assert (status, told["status"], told["sessions"], told["max_sessions"]) == (200, "ok", 1, 8)
        assert told["models"] == {"asr": "whisper-base", "llm": "smollm2-135m-instruct", "voice": "heart"}


async def test_a_full_server_is_sent_nobody_and_not_restarted() -> None:
    async with scripted_server(server__max_sessions=1) as server, calling(server.realtime_url) as caller:
        await caller.until("session.created")
        assert (await healthz(server))[0] == 503
        assert (await get(server, "/livez"))[0] == 200


async def test_a_server_that_failed_its_self_test_may_be_restarted() -> None:
    async with scripted_server() as server:
        server.watch.self_test.last = Outcome(0.0, failed_at="language model")
        status, told = await healthz(server)
        assert (status, told["status"], told["self_test"]["failed_at"]) == (503, "failing", "language model")
        assert (await get(server, "/livez"))[0] == 503


async def test_a_server_that_stops_says_so_while_it_finishes_and_takes_nobody() -> None:
    async with stopping_in_mid_reply() as (server, caller, go_on):
        status, told = await healthz(server)
        assert (status, told["status"]) == (503, "stopping")
        with pytest.raises(InvalidStatus, match="503"):
            async with calling(server.realtime_url):
                pass
        go_on.set()
        assert (await caller.until("response.done"))["response"]["status"] == "completed"


# --- who is told what ---


async def test_a_stranger_is_told_the_status_and_no_more() -> None:
    async with scripted_server(keys=Keys([KEY])) as server:
        assert await healthz(server) == (200, {"status": "ok"})
        assert (await healthz(server, **BEARER))[1]["sessions"] == 0
        assert (await get(server, "/metrics"))[0] == 401
        assert (await get(server, "/metrics", **BEARER))[0] == 200


async def test_an_apps_secret_opens_conversations_and_no_metrics() -> None:
    keys = Keys([KEY])
    secret = keys.new_secret(Visitor(), 600, {}).value
    async with scripted_server(keys=keys) as server:
        assert (await get(server, "/metrics", Authorization=f"Bearer {secret}"))[0] == 401


@pytest.mark.parametrize(
    ("host", "status"), [("localhost:80", 200), ("[::1]:80", 200), ("192.168.0.7", 200), ("evil.example", 401)]
)
async def test_without_keys_a_page_whose_name_was_made_to_point_here_reads_no_metrics(
    host: str, status: int
) -> None:
    async with scripted_server() as server:
        assert (await get(server, "/metrics", Host=host))[0] == status


# --- what is counted ---


async def test_conversations_their_turns_and_refusals_are_counted() -> None:
    async with scripted_server(server__max_sessions=1) as server:
        async with calling(server.realtime_url) as caller:
            await caller.ask("Hello there")
            await caller.until("response.done")
            async with calling(server.realtime_url) as second:
                await second.closing()
            during = (await get(server, "/metrics"))[1]
        async with asyncio.timeout(5):
            while server.sessions:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
        after = (await get(server, "/metrics"))[1]
    assert (value(during, "echoic_sessions"), value(during, "echoic_full")) == (1, 1)
    assert value(during, 'echoic_sessions_refused_total{code="server_full"}') == 1
    assert value(during, 'echoic_turns_total{ended_by="client",status="completed"}') == 1
    assert value(during, "echoic_response_seconds_count") == 1
    assert value(after, 'echoic_sessions_closed_total{code="1000"}') == 1


async def test_a_watched_server_tells_how_late_its_loop_is_and_how_much_it_holds() -> None:
    async with scripted_server(server__self_test_s=0) as server:
        watching = asyncio.create_task(server.watch.run())
        await asyncio.sleep(0.5)
        metrics = (await get(server, "/metrics"))[1]
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    assert value(metrics, "echoic_loop_lag_seconds_count") > 0
    assert value(metrics, "process_resident_memory_bytes") > 1_000_000


@pytest.mark.models
async def test_a_spoken_turn_is_measured_and_logged_without_its_words(
    models: Models, voice: HibariVoice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, TURNS)
    async with Server(Config(), models=models, voice=voice) as server:
        async with client(server).realtime.connect(model="echoic") as connection:
            heard = await ask(connection, await question(voice, "What is the capital of France?"))
        metrics = (await get(server, "/metrics"))[1]
    (logged,) = [record for record in caplog.records if record.name == TURNS]
    figures = logged.__dict__["figures"]
    assert "france" in heard.transcript.lower()
    assert "france" not in f"{logged.getMessage()} {figures} {metrics}".lower()
    assert sum(figures["parts_ms"].values()) == pytest.approx(figures["voice_to_voice_ms"])
    counted_ms = value(metrics, "echoic_voice_to_voice_seconds_sum") * 1000
    assert counted_ms == pytest.approx(figures["voice_to_voice_ms"])


@pytest.mark.models
async def test_the_self_test_passes_on_the_real_models(models: Models, voice: HibariVoice) -> None:
    async with Server(Config(), models=models, voice=voice) as server:
        await server.watch.self_test.take()
        status, told = await healthz(server)
        assert (status, told["self_test"]["passed"], server.sessions) == (200, True, 0)
        assert value((await get(server, "/metrics"))[1], "echoic_voice_to_voice_seconds_count") == 0
