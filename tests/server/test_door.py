"""The door: who gets in, on real sockets, and how a connection ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from websockets.exceptions import InvalidStatus

from pipeline.load import REMEMBERED_S, WINDOW_S, Load
from pipeline.ports import InputError
from server.app import Server
from server.keys import Keys
from tests.server.scripted import EchoModel, calling, scripted_server, stopping_in_mid_reply

KEY = "k" * 32
BEARER = {"Authorization": f"Bearer {KEY}"}


async def post(server: Server, path: str, body: bytes, method: str = "POST", **headers: str) -> tuple[int, Any]:
    request = Request(f"http://127.0.0.1:{server.port}{path}", body, headers, method=method)

    def exchange() -> tuple[int, Any]:
        try:
            with urlopen(request, timeout=10) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.to_thread(exchange)


# --- keys and origins ---


async def test_beyond_this_machine_nobody_is_served_without_a_key() -> None:
    with pytest.raises(InputError, match="ECHOIC_API_KEY"):
        await scripted_server(server__host="0.0.0.0").__aenter__()


async def test_with_a_key_the_whole_network_is_served() -> None:
    async with (
        scripted_server(server__host="0.0.0.0", keys=Keys([KEY])) as server,
        calling(server.realtime_url, additional_headers=BEARER) as client,
    ):
        await client.ask("Hello there")
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_wrong_key_is_told_and_the_connection_closed() -> None:
    async with scripted_server(keys=Keys([KEY])) as server, calling(server.realtime_url) as client:
        assert (await client.receive())["error"]["code"] == "invalid_api_key"
        assert await client.closing() == (3000, "invalid_request_error.invalid_api_key")


async def test_a_browser_sends_its_key_as_a_subprotocol_and_is_answered_with_realtime() -> None:
    offered = ["realtime", f"openai-insecure-api-key.{KEY}"]
    async with (
        scripted_server(keys=Keys([KEY])) as server,
        calling(server.realtime_url, subprotocols=offered) as client,
    ):
        assert client.socket.subprotocol == "realtime"
        assert (await client.receive())["type"] == "session.created"


async def test_a_page_from_elsewhere_is_refused_before_the_socket_opens() -> None:
    async with scripted_server() as server:
        with pytest.raises(InvalidStatus, match="403"):
            async with calling(server.realtime_url, origin="https://evil.example"):
                pass


async def test_the_speech_socket_asks_for_the_key_too() -> None:
    async with scripted_server(keys=Keys([KEY])) as server:
        url = f"{server.url}/text-to-speech/heart/stream-input"
        with pytest.raises(InvalidStatus, match="401"):
            async with calling(url):
                pass
        async with calling(url, additional_headers={"xi-api-key": KEY}) as client:
            await client.socket.send('{"text": ""}')
            assert (await client.receive())["isFinal"]


# --- client secrets ---


async def test_a_client_secret_opens_the_session_it_was_made_for() -> None:
    wanted = {"session": {"type": "realtime", "instructions": "Talk like a pirate."}}
    async with scripted_server(keys=Keys([KEY])) as server:
        status, made = await post(server, "/v1/realtime/client_secrets", json.dumps(wanted).encode(), **BEARER)
        assert (status, made["session"]["instructions"]) == (200, "Talk like a pirate.")
        assert set(made) == {"value", "expires_at", "session"}
        protocols = ["realtime", f"openai-insecure-api-key.{made['value']}"]
        async with calling(server.realtime_url, subprotocols=protocols) as client:
            updated = await client.until("session.updated")
            assert updated["session"]["instructions"] == "Talk like a pirate."


async def test_a_client_secret_is_made_for_holders_of_a_key_only() -> None:
    async with scripted_server(keys=Keys([KEY])) as server:
        status, told = await post(server, "/v1/realtime/client_secrets", b"{}")
        assert (status, told["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/elsewhere", b"{}", 404),
        ("PUT", "/v1/realtime/client_secrets", b"{}", 405),
        ("POST", "/v1/realtime/client_secrets", b"not json", 400),
        ("POST", "/v1/realtime/client_secrets", b"[1]", 400),
        ("POST", "/v1/realtime/client_secrets", b'{"expires_after": {"seconds": "soon"}}', 400),
        ("POST", "/v1/realtime/client_secrets", b"x" * 70_000, 413),
    ],
)
async def test_a_plain_request_that_cannot_be_answered_says_why(
    method: str, path: str, body: bytes, status: int
) -> None:
    async with scripted_server() as server:
        told = await post(server, path, body, method)
        assert (told[0], bool(told[1]["error"]["message"])) == (status, True)


async def test_garbage_is_answered_as_such_and_the_next_client_is_served() -> None:
    async with scripted_server() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01\x02 no HTTP at all\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
        async with calling(server.realtime_url) as client:
            assert (await client.receive())["type"] == "session.created"


# --- limits ---


async def test_a_full_server_says_so_before_any_sound_is_taken() -> None:
    async with scripted_server(server__max_sessions=1) as server, calling(server.realtime_url) as first:
        await first.until("session.created")
        async with calling(server.realtime_url) as second:
            assert (await second.receive())["error"]["code"] == "server_full"
            assert (await second.closing())[0] == 1013


async def test_a_server_whose_models_are_too_busy_takes_nobody_new_until_they_are_not() -> None:
    """One conversation takes 40 % of two cores, so two would take 80 %."""
    async with scripted_server(server__full_share=0.75) as server, calling(server.realtime_url) as first:
        await first.until("session.created")
        now = 0.0
        server.models.cores.load = load = Load(2, lambda: now)
        load.note(0.4 * WINDOW_S, cores=2)
        async with calling(server.realtime_url) as second:
            assert (await second.receive())["error"]["code"] == "server_full"
            assert (await second.closing())[0] == 1013
        now = 2 * REMEMBERED_S
        async with calling(server.realtime_url) as third:
            assert (await third.receive())["type"] == "session.created"


async def test_the_first_conversation_is_let_in_however_busy_the_machine_is() -> None:
    async with scripted_server(server__full_share=0.1) as server:
        server.models.cores.load.note(WINDOW_S, cores=2)
        async with calling(server.realtime_url) as client:
            assert (await client.receive())["type"] == "session.created"


async def test_a_key_gets_no_more_than_its_sessions() -> None:
    async with (
        scripted_server(limits__sessions_per_key=1, keys=Keys([KEY])) as server,
        calling(server.realtime_url, additional_headers=BEARER) as first,
    ):
        await first.until("session.created")
        async with calling(server.realtime_url, additional_headers=BEARER) as second:
            assert (await second.closing())[0] == 1013


async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    async with scripted_server(limits__message_bytes=10_000) as server, calling(server.realtime_url) as client:
        await client.send("input_audio_buffer.append", audio="A" * 20_000)
        assert (await client.closing())[0] == 1009


async def test_a_session_that_lasts_too_long_is_ended_with_a_reason() -> None:
    async with scripted_server(limits__session_s=0.05) as server, calling(server.realtime_url) as client:
        assert (await client.until("error"))["error"]["code"] == "session_expired"
        assert (await client.closing())[0] == 1001


async def test_a_client_that_takes_no_sound_is_sent_away_and_the_others_are_not() -> None:
    async with (
        scripted_server(limits__unsent_ms=50) as server,
        calling(server.realtime_url) as quick,
        calling(server.realtime_url, max_queue=1) as slow,
    ):
        door = list(server._doors)[1]
        door._outbox.next = asyncio.Event().wait  # type: ignore[method-assign]  # its socket takes nothing more
        await slow.ask("Tell me a very long story about the sea and the sky.")
        await quick.ask("Hello")
        assert (await quick.until("response.done"))["response"]["status"] == "completed"
        code, reason = await slow.closing()
        assert (code, "too slow" in (reason or "")) == (1013, True)


async def test_a_client_that_answers_no_ping_is_given_up() -> None:
    async with (
        scripted_server(limits__ping_s=0.05, limits__close_s=0.05) as server,
        calling(server.realtime_url) as client,
    ):
        await client.until("session.created")
        client.socket.transport.pause_reading()
        async with asyncio.timeout(10):
            while server.sessions:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.02)


# --- the end ---


async def test_a_server_that_stops_lets_a_running_reply_end_first() -> None:
    async with stopping_in_mid_reply() as (_, client, go_on):
        go_on.set()
        assert (await client.until("response.done"))["response"]["status"] == "completed"
        assert await client.closing() == (1001, "the server is stopping")


async def test_a_reply_that_does_not_end_in_time_is_cut_and_told() -> None:
    model = EchoModel()
    server = await scripted_server(model=model, server__finish_s=0.1).__aenter__()
    async with calling(server.realtime_url) as client:
        await client.ask("Hello " * 50)
        await client.until("response.output_audio.delta")
        model.go_on.clear()
        await server.__aexit__(None, None, None)
        assert (await client.until("response.done"))["response"]["status"] == "cancelled"
        assert await client.closing() == (1001, "the server is stopping")


async def test_a_server_that_stops_says_goodbye_to_speech_clients_too() -> None:
    server = await scripted_server().__aenter__()
    async with calling(f"{server.url}/text-to-speech/heart/multi-stream-input") as client:
        await server.__aexit__(None, None, None)
        assert (await client.closing())[0] == 1001


# --- what is kept to itself ---


async def test_keys_words_and_sound_are_not_logged_and_nothing_is_written(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    async with (
        scripted_server(keys=Keys([KEY])) as server,
        calling(server.realtime_url, additional_headers=BEARER, logger=logging.getLogger("mute")) as client,
    ):
        await client.ask("Abracadabra")
        await client.until("response.done")
    told = "\n".join(f"{record.name} {record.getMessage()}" for record in caplog.records if record.name != "mute")
    assert KEY not in told
    assert "abracadabra" not in told.lower()
    assert os.listdir(tmp_path) == []


async def test_with_a_certificate_the_server_speaks_tls(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    trust = ssl.create_default_context(cafile=cert)
    async with (
        scripted_server(server__cert=cert, server__cert_key=key) as server,
        calling(server.realtime_url, ssl=trust) as client,
    ):
        assert server.realtime_url.startswith("wss://")
        await client.ask("Hello")
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_certificate_that_is_none_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"TLS: cannot use .*cert\.pem"):
        await scripted_server(server__cert=str(tmp_path / "cert.pem")).__aenter__()
