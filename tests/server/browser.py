"""A real Chromium on the page, with a recording in the place of the microphone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from server.app import Server
from server.voices.hibari import HibariVoice

if TYPE_CHECKING:
    from playwright.async_api import Page

PICTURES = Path(__file__).parents[2] / "out" / "page"
DESK, PHONE = (1280, 860), (390, 844)


async def recording(voice: HibariVoice, path: Path, *parts: str | float) -> Path:
    """Words in the project's own voice and seconds of silence, as the microphone is to hear them."""
    sounds = [
        np.zeros(round(part * 24_000), np.float32)
        if isinstance(part, float)
        else (await voice.speak(part)).samples
        for part in parts
    ]
    soundfile.write(path, np.concatenate(sounds), 24_000, subtype="PCM_16")
    return path


@asynccontextmanager
async def browsing(
    folder: Path, microphone: Path | None = None, size: tuple[int, int] = DESK, **look: Any
) -> AsyncIterator[Page]:
    """An empty page in Chromium, which hears the recording again and again, or has no microphone.

    Errors in its console fail.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.async_api", reason="drives chromium: pip install playwright")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    if microphone is not None:
        flags += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        flags += [f"--use-file-for-fake-audio-capture={microphone}"]
    async with playwright.async_playwright() as tools:
        width, height = size
        context = await tools.chromium.launch_persistent_context(
            folder / "profile",
            executable_path=chromium,
            args=flags,
            viewport={"width": width, "height": height},
            device_scale_factor=2,
            is_mobile=width < 600,
            has_touch=width < 600,
            **look,
        )
        errors: list[str] = []
        page = context.pages[0]
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(60_000)
        yield page
        await context.close()
    assert errors == [], errors


@asynccontextmanager
async def visiting(
    server: Server, folder: Path, microphone: Path | None = None, **look: Any
) -> AsyncIterator[Page]:
    """The server's page in Chromium."""
    async with browsing(folder, microphone, **look) as page:
        await page.goto(server.url.replace("ws", "http", 1).removesuffix("v1"))
        yield page


async def until(page: Page, condition: str) -> None:
    """Wait for a JavaScript expression to become true; from outside, as the page's policy forbids ``eval``."""
    try:
        async with asyncio.timeout(60):
            while not await page.evaluate(condition):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.03)
    except TimeoutError:
        seen = await page.inner_text("body")
        raise AssertionError(f"never became true: {condition}; the page shows: {seen}") from None


async def picture(page: Page, name: str) -> None:
    """Keep what it looks like, for people to judge."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=PICTURES / f"{name}.png")
