"""pipecat-ai: an ElevenLabsTTSService in a pipeline speaks a model's text and is interrupted."""

from __future__ import annotations

import asyncio

from loguru import logger
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.elevenlabs.tts import ElevenLabsTTSService
from pipecat.workers.runner import WorkerRunner
from speaking import ANSWER, FAREWELL, RATE_HZ, STORY, Report, Spoken, main, tokens


class Loudspeaker(FrameProcessor):
    """Stands behind the service in the place of a transport."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self.playing = report.answer
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    def expect(self, spoken: Spoken) -> None:
        """What comes now is this."""
        self.playing = spoken
        self.began.clear()
        self.ended.clear()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note it and pass it on."""
        await super().process_frame(frame, direction)
        match frame:
            case TTSAudioRawFrame():
                self.playing.pcm += frame.audio
                self.began.set()
            case TTSTextFrame():
                self.playing.words.append((frame.text, frame.pts / 1e9 if frame.pts else 0.0))
            case TTSStoppedFrame():
                await self.push_frame(BotStoppedSpeakingFrame(), FrameDirection.UPSTREAM)
                self.ended.set()
            case ErrorFrame():
                self._report.errors.append(frame.error)
        await self.push_frame(frame, direction)


async def converse(host: str, key: str) -> Report:
    """An answer, a story that is interrupted, a farewell."""
    logger.remove()
    report = Report()
    settings = ElevenLabsTTSService.Settings(voice="heart", model="echoic")
    service = ElevenLabsTTSService(api_key=key, url=f"ws://{host}", settings=settings)
    loudspeaker = Loudspeaker(report)
    params = PipelineParams(audio_out_sample_rate=RATE_HZ)
    worker = PipelineWorker(Pipeline([service, loudspeaker]), params=params, cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())

    async def say(text: str) -> None:
        reply = [LLMFullResponseStartFrame(), *map(LLMTextFrame, tokens(text)), LLMFullResponseEndFrame()]
        await worker.queue_frames(reply)

    await say(ANSWER)
    await loudspeaker.ended.wait()
    loudspeaker.expect(report.story)
    await say(STORY)
    await loudspeaker.began.wait()
    await worker.queue_frame(InterruptionFrame())
    await asyncio.sleep(1)  # what of the story is on its way has arrived, and is not for the user
    loudspeaker.expect(report.farewell)
    await say(FAREWELL)
    await loudspeaker.ended.wait()
    await worker.cancel()
    await asyncio.wait([running])
    return report


if __name__ == "__main__":
    main(converse)
