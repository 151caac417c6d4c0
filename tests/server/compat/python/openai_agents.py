"""openai-agents: a RealtimeAgent hears a question, is interrupted in its answer, and hears another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agents.realtime import RealtimeAgent, RealtimeRunner
from talking import Microphone, Report, main


async def converse(url: str, question: Path, interruption: Path) -> Report:
    """Until the second answer is over."""
    report = Report()
    runner = RealtimeRunner(RealtimeAgent(name="agent", instructions="Answer in two sentences."))
    settings = {"input_audio_transcription": {"model": "whisper-1"}}
    model_config = {"url": f"{url}/realtime", "api_key": "unused", "initial_model_settings": settings}
    async with await runner.run(model_config=model_config) as session:
        microphone = Microphone(session.send_audio)
        microphone.say(question)
        speaking = asyncio.create_task(microphone.run())
        async for event in session:
            if event.type == "audio":
                if not report.audio_bytes:
                    microphone.say(interruption)
                report.audio_bytes += len(event.audio.data)
            elif event.type == "audio_interrupted":
                report.interruptions += 1
            elif event.type == "error":
                report.errors.append(str(event.error))
            elif event.type == "raw_model_event" and event.data.type == "input_audio_transcription_completed":
                report.transcripts.append(event.data.transcript)
            elif event.type == "agent_end" and len(report.transcripts) == 2:
                break
        report.replies = [
            content.transcript or ""
            for item in session._history
            if getattr(item, "role", "") == "assistant"
            for content in item.content
            if content.type == "audio"
        ]
        speaking.cancel()
    return report


if __name__ == "__main__":
    main(converse)
