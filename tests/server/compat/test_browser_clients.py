"""JavaScript clients as they are published, bundled for the browser and run in a real Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfile
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from pipeline.backends.loader import Models
from pipeline.config import load_config
from server.app import Server
from server.voices.hibari import HibariVoice
from tests.server.browser import browsing
from tests.server.compat.conftest import HERE, check_heard_and_interrupted, needs_node, words

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

PAGE = "<!doctype html><link rel=icon href=data:,><script type=module src=/page.js></script>"


@pytest.fixture
async def site(tmp_path: Path, readings: list[Path]) -> Path:
    """The folder of an app's page: the clients and what they import in one file, and the recordings."""
    needs_node()
    folder = tmp_path / "site"
    options = ["--bundle", "--format=esm", "--platform=browser", f"--outfile={folder / 'page.js'}"]
    esbuild = HERE / "js/node_modules/.bin/esbuild"
    building = await asyncio.create_subprocess_exec(esbuild, HERE / "js/in_browser.mjs", *options)
    assert await building.wait() == 0
    (folder / "index.html").write_text(PAGE)
    for reading, name in zip(readings, ("question.wav", "interruption.wav"), strict=True):
        copyfile(reading, folder / name)
    return folder


@pytest.fixture
def app_url(site: Path) -> Iterator[str]:
    """Where the app's page is served: not by Echoic."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=site)) as host:
        serving = Thread(target=host.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{host.server_port}/"
        host.shutdown()
        serving.join()


@asynccontextmanager
async def visiting_app(url: str, folder: Path) -> AsyncIterator[Page]:
    """The app's page in Chromium; it asks nobody else for anything."""
    async with browsing(folder, ignore_https_errors=True) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(url)
        yield page
        assert [one for one in asked if not one.startswith((url, "data:"))] == []


async def test_the_agents_sdk_is_heard_answered_interrupted_and_answered_again(
    server: Server, app_url: str, tmp_path: Path
) -> None:
    async with visiting_app(app_url, tmp_path) as page:
        report = await page.evaluate("url => converse('agents_realtime', url)", server.url)
    check_heard_and_interrupted(report)
    assert words(report["replies"][-1])
    assert not report["errors"]


async def test_the_openai_sdk_does_the_same_over_tls(
    models: Models, voice: HibariVoice, certificate: tuple[str, str], app_url: str, tmp_path: Path
) -> None:
    cert, key = certificate
    config = load_config(overrides={"server.cert": cert, "server.cert_key": key})
    async with (
        Server(config, models=models, voice=voice) as server,
        visiting_app(app_url, tmp_path) as page,
    ):
        report = await page.evaluate("url => converse('openai_browser', url)", server.url)
    check_heard_and_interrupted(report)
    assert words(report["replies"][-1])
    assert not report["errors"]
