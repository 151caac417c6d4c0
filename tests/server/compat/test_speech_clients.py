"""Clients of the hosted speech service as they are published: what they hear of ours is recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.loader import Models
from pipeline.config import Config, load_config
from pipeline.ports import RATE_HZ
from server.app import Server
from server.keys import Keys
from server.voices.hibari import HibariVoice
from tests.server.compat.conftest import HERE, PYTHON, needs_python, run_client, words
from tests.server.compat.python.speaking import ANSWER, FAREWELL

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

KEY = "k" * 32


async def conversation(client: str, server: Server, folder: Path, **environment: str) -> dict[str, Any]:
    needs_python()
    script = HERE / f"python/{client}.py"
    return await run_client([PYTHON, script, f"127.0.0.1:{server.port}", KEY, folder], **environment)


async def recognised(recording: Path, models: Models) -> tuple[str, float]:
    """The words in a recording, and how many seconds it has."""
    sound = read_recording(recording)
    heard = await models.recogniser.recognise(resample(sound.samples, sound.rate_hz, RATE_HZ))
    return words(heard.text), len(sound.samples) / sound.rate_hz


async def check_what_was_heard(folder: Path, models: Models) -> float:
    """Answer and farewell are understood, of the story little came; returns the answer's length in s."""
    answer, answer_s = await recognised(folder / "answer.wav", models)
    farewell, _ = await recognised(folder / "farewell.wav", models)
    _, story_s = await recognised(folder / "story.wav", models)
    assert answer.startswith("the capital of france is paris")
    assert "good night and sleep well" in farewell
    assert 0 < story_s < answer_s
    return answer_s


async def test_livekit_hears_an_answer_breaks_off_a_story_and_hears_a_farewell_over_one_socket(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    async with Server(Config(), keys=Keys([KEY]), models=models, voice=voice) as server:
        report = await conversation("livekit_elevenlabs", server, tmp_path)
    await check_what_was_heard(tmp_path, models)
    assert [word for word, _ in report["words"]["answer"]] == ANSWER.split()
    assert not report["errors"]


async def test_pipecat_is_interrupted_in_a_story_and_told_when_each_word_of_the_others_begins(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    async with Server(Config(), keys=Keys([KEY]), models=models, voice=voice) as server:
        report = await conversation("pipecat_elevenlabs", server, tmp_path)
    answer_s = await check_what_was_heard(tmp_path, models)
    said, begins = zip(*report["words"]["answer"], strict=True)
    assert list(said) == ANSWER.split()
    assert list(begins) == sorted(set(begins))  # each after the one before
    assert 0.5 * answer_s < begins[-1] - begins[0] < answer_s
    assert [word for word, _ in report["words"]["farewell"]] == FAREWELL.split()
    assert not report["errors"]


async def test_the_official_sdk_speaks_over_tls_and_is_told_what_is_not_served(
    models: Models, voice: HibariVoice, certificate: tuple[str, str], tmp_path: Path
) -> None:
    cert, cert_key = certificate
    config = load_config(overrides={"server.cert": cert, "server.cert_key": cert_key})
    async with Server(config, keys=Keys([KEY]), models=models, voice=voice) as server:
        report = await conversation("elevenlabs_sdk", server, tmp_path, SSL_CERT_FILE=cert)
    await check_what_was_heard(tmp_path, models)
    assert report["errors"] == ["unsupported_output_format"]
