"""The gate: which pages, keys and clients may come in."""

from __future__ import annotations

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from server.gate import Gate, Refusal, realtime_key
from server.keys import Keys, Visitor

KEY = "k" * 32


def gate(*keys: str, origins: tuple[str, ...] = (), share: int = 2) -> Gate:
    return Gate(Keys(keys), origins, share)


def asking(path: str = "/v1/realtime", **headers: str) -> Request:
    return Request(path, Headers({name.replace("_", "-"): value for name, value in headers.items()}))


@pytest.mark.parametrize(
    ("origin", "host", "admitted"),
    [
        (None, "127.0.0.1:8080", True),  # a program
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),  # the server's own page
        ("http://localhost:3000", "127.0.0.1:8080", True),  # a page in development
        ("http://10.0.2.2:8080", "10.0.2.2:8080", True),  # the server's own, by address
        ("https://evil.example", "127.0.0.1:8080", False),
        ("http://evil.example:8080", "evil.example:8080", False),  # its name made to point here
        ("null", "127.0.0.1:8080", False),  # a file, a sandbox
    ],
)
def test_a_page_from_elsewhere_may_not_use_the_server_of_this_machine(
    origin: str | None, host: str, admitted: bool
) -> None:
    headers = Headers({"Host": host, **({"Origin": origin} if origin else {})})
    assert gate().admits_origin(headers) is admitted


def test_a_named_page_may_connect_and_a_star_admits_all() -> None:
    headers = Headers({"Host": "voice.example", "Origin": "https://app.example"})
    assert gate(origins=("https://app.example/",)).admits_origin(headers)
    assert gate(origins=("*",)).admits_origin(headers)
    assert not gate(origins=("https://app.example.evil",)).admits_origin(headers)


def test_the_servers_own_page_may_connect_by_name_where_a_key_is_needed() -> None:
    headers = Headers({"Host": "voice.example", "Origin": "https://voice.example"})
    assert gate(KEY).admits_origin(headers)
    assert not gate().admits_origin(headers)


def test_a_key_comes_in_the_header_or_as_a_browsers_subprotocol() -> None:
    assert realtime_key(Headers({"Authorization": f"Bearer {KEY}"})) == KEY
    offered = {"Sec-WebSocket-Protocol": f"realtime, openai-insecure-api-key.{KEY}, openai-project.x"}
    assert realtime_key(Headers(offered)) == KEY
    assert realtime_key(Headers({"Authorization": f"Basic {KEY}"})) == realtime_key(Headers()) == ""


def test_a_wrong_key_is_refused_as_the_hosted_service_does() -> None:
    with pytest.raises(Refusal) as refused:
        gate(KEY).realtime_visitor(asking(Authorization="Bearer wrong"), [])
    assert (refused.value.close_code, refused.value.reason) == (3000, "invalid_request_error.invalid_api_key")


@pytest.mark.parametrize(
    "headers", [{"OpenAI_Beta": "realtime=v1"}, {"Sec_WebSocket_Protocol": "realtime, openai-beta.realtime-v1"}]
)
def test_a_client_of_the_beta_protocol_is_told_so(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal) as refused:
        gate().realtime_visitor(asking(**headers), [])
    assert (refused.value.close_code, refused.value.code) == (4000, "beta_api_shape_disabled")


def test_a_key_has_only_so_many_sessions_and_other_keys_theirs() -> None:
    other = "o" * 32
    door = gate(KEY, other)
    first = door.realtime_visitor(asking(Authorization=f"Bearer {KEY}"), [])
    with pytest.raises(Refusal) as refused:
        door.realtime_visitor(asking(Authorization=f"Bearer {KEY}"), [first, first])
    assert refused.value.close_code == 1013
    assert door.realtime_visitor(asking(Authorization=f"Bearer {other}"), [first, first])


def test_without_keys_nobody_has_a_share() -> None:
    assert gate().realtime_visitor(asking(), [Visitor()] * 7) == Visitor()


def test_speech_clients_send_their_key_as_a_header_or_in_the_query() -> None:
    door = gate(KEY)
    assert door.speech_visitor(asking(xi_api_key=KEY))
    assert door.speech_visitor(asking(path=f"/v1/text-to-speech/x/stream-input?xi-api-key={KEY}"))
    assert door.speech_visitor(asking(path="/v1/text-to-speech/x/stream-input")) is None
