"""livekit-plugins-openai: a RealtimeModel's session hears a question, is interrupted, and is asked to reply."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from livekit import rtc
from livekit.agents import llm, utils
from livekit.plugins import openai
from talking import Microphone, Report, main


class Listener:
    """Notes what the session tells."""

    def __init__(self, session: llm.RealtimeSession, report: Report) -> None:
        self._report = report
        self.heard, self.over = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        session.on("input_audio_transcription_completed", self._on_transcript)
        session.on("input_speech_started", self._on_speech)
        session.on("generation_created", self._on_generation)
        session.on("error", lambda error: report.errors.append(str(error)))

    def _on_transcript(self, event: Any) -> None:
        if event.is_final:
            self._report.transcripts.append(event.transcript)

    def _on_speech(self, _event: Any) -> None:
        self._report.interruptions += self.heard.is_set()

    def _on_generation(self, generation: Any) -> None:
        task = asyncio.create_task(self._take(generation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, generation: Any) -> None:
        async for message in generation.message_stream:
            reading = asyncio.create_task(self._read(message.text_stream))
            async for frame in message.audio_stream:
                self._report.audio_bytes += len(frame.data) * 2
                self.heard.set()
            self._report.replies.append(await reading)
        if len(self._report.transcripts) >= 2:
            self.over.set()

    async def _read(self, texts: Any) -> str:
        return "".join([str(text) async for text in texts])


async def converse(url: str, question: Path, interruption: Path) -> Report:
    """A history given beforehand, a question, an interruption, a reply that is asked for."""
    report = Report()
    async with utils.http_context.open():
        model = openai.realtime.RealtimeModel(api_key="unused", base_url=url, model="echoic")
        session = model.session()
        listener = Listener(session, report)
        context = llm.ChatContext.empty()
        context.add_message(role="user", content="My name is Ada.")
        context.add_message(role="assistant", content="Hello Ada.")
        await session.update_chat_ctx(context)

        async def send(pcm: bytes) -> None:
            session.push_audio(rtc.AudioFrame(pcm, 24_000, 1, len(pcm) // 2))

        microphone = Microphone(send)
        microphone.say(question)
        speaking = asyncio.create_task(microphone.run())
        await listener.heard.wait()
        microphone.say(interruption)
        await listener.over.wait()
        listener.over.clear()
        await session.generate_reply(instructions="Say goodbye.")
        await listener.over.wait()
        speaking.cancel()
        await session.aclose()
    return report


if __name__ == "__main__":
    main(converse)
