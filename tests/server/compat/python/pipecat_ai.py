"""pipecat-ai: an OpenAIRealtimeLLMService in a pipeline hears a question and is interrupted in its answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from loguru import logger
from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    ProposedUserStartedSpeakingFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner
from talking import Microphone, Report, main


class Listener(FrameProcessor):
    """Stands before or behind the service and notes what passes."""

    def __init__(self, report: Report, heard: asyncio.Event, over: asyncio.Event) -> None:
        super().__init__()
        self._report, self._heard, self._over = report, heard, over
        self._words: list[str] = []

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note it and pass it on."""
        await super().process_frame(frame, direction)
        report = self._report
        match frame:
            case TTSAudioRawFrame():
                report.audio_bytes += len(frame.audio)
                self._heard.set()
            case TranscriptionFrame():
                report.transcripts.append(frame.text)
            case ProposedUserStartedSpeakingFrame() if direction is FrameDirection.DOWNSTREAM:
                report.interruptions += self._heard.is_set()  # a pipeline's turn strategy acts on the proposal
            case TTSTextFrame():
                self._words.append(frame.text)
            case TTSStoppedFrame():
                report.replies.append("".join(self._words))
                self._words.clear()
                if len(report.transcripts) >= 2:
                    self._over.set()
            case ErrorFrame():
                report.errors.append(frame.error)
        await self.push_frame(frame, direction)


async def converse(url: str, question: Path, interruption: Path) -> Report:
    """Until the second answer is over."""
    logger.remove()
    report, heard, over = Report(), asyncio.Event(), asyncio.Event()
    transcribed = events.AudioInput(transcription=events.InputAudioTranscription(model="whisper-1"))
    properties = events.SessionProperties(audio=events.AudioConfiguration(input=transcribed))
    settings = OpenAIRealtimeLLMService.Settings(model="echoic", session_properties=properties)
    service = OpenAIRealtimeLLMService(api_key="unused", base_url=f"{url}/realtime", settings=settings)
    before, behind = Listener(report, heard, over), Listener(report, heard, over)
    worker = PipelineWorker(Pipeline([before, service, behind]), cancel_on_idle_timeout=False)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())

    async def send(pcm: bytes) -> None:
        await worker.queue_frame(InputAudioRawFrame(audio=pcm, sample_rate=24_000, num_channels=1))

    microphone = Microphone(send)
    microphone.say(question)
    speaking = asyncio.create_task(microphone.run())
    await heard.wait()
    microphone.say(interruption)
    await over.wait()
    speaking.cancel()
    await worker.cancel()
    await asyncio.wait([running])
    return report


if __name__ == "__main__":
    main(converse)
