"""elevenlabs: the official SDK's convert_realtime, over TLS as it has no other way, with a growing text."""

from __future__ import annotations

import asyncio

from elevenlabs import VoiceSettings
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from speaking import ANSWER, FAREWELL, STORY, Report, main, tokens


async def converse(host: str, key: str) -> Report:
    """An answer, a story whose listener leaves, a faster farewell, and a format that is not served."""
    return await asyncio.to_thread(_converse, ElevenLabs(api_key=key, base_url=f"https://{host}"))


def _converse(client: ElevenLabs) -> Report:
    report = Report()
    speak = client.text_to_speech.convert_realtime
    for piece in speak("heart", text=tokens(ANSWER), model_id="echoic", output_format="pcm_24000"):
        report.answer.pcm += piece
    story = speak("heart", text=tokens(STORY), output_format="pcm_24000")
    report.story.pcm = next(story)
    story.close()
    settings = VoiceSettings(stability=0.5, similarity_boost=0.5, speed=1.2)
    for piece in speak("heart", text=tokens(FAREWELL), voice_settings=settings, output_format="pcm_24000"):
        report.farewell.pcm += piece
    try:
        next(speak("heart", text=tokens(ANSWER), output_format="opus_48000_32"))
    except ApiError as error:
        report.errors.append(str(error.body))
    return report


if __name__ == "__main__":
    main(converse)
