"""livekit-plugins-elevenlabs: a TTS's streams, several over one socket, one of them left in the middle."""

from __future__ import annotations

from livekit.agents import utils
from livekit.agents.tts import SynthesizedAudio, SynthesizeStream
from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT
from livekit.plugins import elevenlabs
from speaking import ANSWER, FAREWELL, STORY, Report, Spoken, main, tokens


async def converse(host: str, key: str) -> Report:
    """An answer, a story that is broken off, a farewell."""
    report = Report()
    async with utils.http_context.open():
        tts = elevenlabs.TTS(base_url=f"http://{host}/v1", api_key=key, voice_id="heart", encoding="pcm_24000")
        async with _speaking(tts, ANSWER) as stream:
            async for audio in stream:
                _note(audio, report.answer)
        async with _speaking(tts, STORY) as stream:
            _note(await anext(stream), report.story)
        async with _speaking(tts, FAREWELL) as stream:
            async for audio in stream:
                _note(audio, report.farewell)
        await tts.aclose()
    return report


def _speaking(tts: elevenlabs.TTS, text: str) -> SynthesizeStream:
    stream = tts.stream()
    for token in tokens(text):
        stream.push_text(token)
    stream.end_input()
    return stream


def _note(audio: SynthesizedAudio, spoken: Spoken) -> None:
    spoken.pcm += bytes(audio.frame.data)
    for word in audio.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, []):
        spoken.words.append((str(word).strip(), word.start_time))


if __name__ == "__main__":
    main(converse)
