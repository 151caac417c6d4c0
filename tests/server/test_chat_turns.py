"""Turns answered by a chat endpoint: a failure is the turn's, not the session's."""

from __future__ import annotations

from pipeline.backends.chat_endpoint import ChatEndpoint
from tests.pipeline.chat_server import KEY, chat_server
from tests.server.scripted import calling, scripted_server


async def test_a_reply_that_breaks_off_fails_its_turn_and_the_next_one_is_answered() -> None:
    with chat_server() as chat:
        endpoint = ChatEndpoint(f"openai:{chat.url}#cut", key=KEY)
        async with scripted_server(model=endpoint) as server, calling(server.realtime_url) as client:
            await client.ask("What is five and five?")
            failed = (await client.until("response.done"))["response"]
            endpoint.model = "words"
            await client.ask("Again, please.")
            answered = (await client.until("response.done"))["response"]
    assert failed["status"] == "failed"
    assert "broke off" in failed["status_details"]["error"]["message"]
    assert answered["status"] == "completed"
    assert answered["output"][0]["content"][0]["transcript"].split() == ["The", "answer", "is", "ten."]
