"""The page in real Chromium: spoken to, interrupted, typed to, refused, at a desk and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.backends.loader import Models
from pipeline.config import Config
from server.app import Server
from server.keys import Keys
from server.voices.hibari import HibariVoice
from tests.pipeline.remembering import RememberingModel
from tests.server.browser import DESK, PHONE, picture, recording, until, visiting
from tests.server.scripted import scripted_server

pytestmark = [pytest.mark.models, pytest.mark.timeout(180)]

KEY = "k" * 32
HEARD = "echoic.sound.playing && echoic.sound.spokenLevel > 0.01"


async def test_a_spoken_question_appears_and_its_answer_is_played_and_can_be_interrupted(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    sound = await recording(voice, tmp_path / "question.wav", 1.5, "Tell me a long story about the sea.", 8.0)
    async with Server(Config(), models=models, voice=voice) as server, visiting(server, tmp_path, sound) as page:
        await picture(page, "desk-welcome")
        await page.click("#orb")
        await until(page, "document.querySelector('#talk .user .rest')?.textContent")
        await picture(page, "desk-hearing")
        await until(page, "/story about the sea/i.test(document.querySelector('#talk .user').innerText)")
        await page.click("#mute")
        await until(page, f"{HEARD} && document.querySelector('#talk .reply .sure').textContent")
        await picture(page, "desk-speaking")
        await page.click("#mute")  # the question is heard again, while it is being answered
        await until(page, "document.querySelector('#talk .reply.cut')")
        assert await page.evaluate("+document.querySelector('#talk .reply.cut').dataset.playedMs") > 500
        await until(page, "document.querySelectorAll('#talk .user').length > 1 && !echoic.sound.playing")
        await picture(page, "desk-interrupted")
        await until(page, f"document.querySelectorAll('#talk .reply').length > 1 && {HEARD}")


async def test_with_push_to_talk_only_what_is_said_while_the_button_is_held_counts(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    sound = await recording(voice, tmp_path / "question.wav", 0.5, "What is the capital of France?", 0.5)
    async with Server(Config(), models=models, voice=voice) as server, visiting(server, tmp_path, sound) as page:
        await page.click("#settings-open")
        await page.check("#push")
        await page.click("#settings .wide")
        await page.click("#orb")
        await until(page, "document.querySelector('#status').innerText === 'Hold to talk'")
        await until(page, "echoic.sound.heardLevel > 0.02")
        assert await page.locator("#talk li").count() == 0
        await page.hover("#orb")
        await page.mouse.down()
        await page.wait_for_timeout(5_000)  # two rounds of the question
        await picture(page, "desk-push-to-talk")
        await page.mouse.up()
        await until(page, "/capital of france/i.test(document.querySelector('#talk .user')?.innerText)")
        await until(page, HEARD)
        await page.keyboard.press("Escape")
        await until(page, "document.querySelector('#talk .reply.cut') && !echoic.sound.playing")
        await page.click("#hush")
        await until(page, "document.body.dataset.state === 'off'")


async def test_on_a_phone_words_can_be_typed_and_nothing_is_cut_off(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    async with (
        Server(Config(), models=models, voice=voice) as server,
        visiting(server, tmp_path, size=PHONE, color_scheme="dark") as page,
    ):
        await picture(page, "phone-welcome")
        await page.fill("#text", "What is the capital of France?")
        await page.press("#text", "Enter")
        await until(page, HEARD)
        await picture(page, "phone-speaking")
        await until(page, "document.querySelector('#talk .waterfall') && !echoic.sound.playing")
        played_ms, received_ms = await page.evaluate("[echoic.sound.played_ms, echoic.reply.received_ms]")
        assert played_ms == pytest.approx(received_ms, abs=1) != 0
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.click("#settings-open")
        await picture(page, "phone-settings")


async def test_a_missing_key_and_a_missing_microphone_are_told_in_words(
    models: Models, voice: HibariVoice, tmp_path: Path
) -> None:
    async with (
        Server(Config(), keys=Keys([KEY]), models=models, voice=voice) as server,
        visiting(server, tmp_path) as page,
    ):
        await page.click("#orb")
        await until(page, "document.querySelector('#problem').innerText.includes('asks for a key')")
        await picture(page, "desk-key")
        await page.fill("#key", KEY)
        await page.click("#settings .wide")
        await page.click("#orb")
        await until(page, "document.body.dataset.state === 'listening'")
        assert "microphone" in (await page.inner_text("#problem")).lower()
        await picture(page, "desk-no-microphone")


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")])
async def test_the_echoic_memory_is_shown_and_runs_down(
    tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    server = scripted_server(model=RememberingModel("It is ten", 0.0), memory__mode="echoic")
    async with server, visiting(server, tmp_path, size=size, color_scheme=scheme) as page:
        await page.fill("#text", "What time is it?")
        await page.press("#text", "Enter")
        await until(page, "document.querySelectorAll('#memory i').length > 1 && /s$/.test(memory.innerText)")
        assert "gone in" in (await page.get_attribute("#memory", "aria-label") or "")
        await picture(page, f"memory-{scheme}")
        await until(page, "document.querySelector('#memory.empty')")
        assert await page.get_attribute("#memory", "aria-label") == "Echoic memory: nothing is held"
