"""What speech over a reply means."""

from __future__ import annotations

import pytest

from pipeline.interruption import Interruption, classify


@pytest.mark.parametrize("text", ["uh-huh", "Yeah.", "Mm-hmm", "Okay, right.", "I see", "Oh, nice!"])
def test_listening_noises_are_backchannels(text: str) -> None:
    assert classify(text) is Interruption.BACKCHANNEL


@pytest.mark.parametrize("text", ["Stop!", "wait", "Okay, stop.", "Please stop it", "Hold on"])
def test_stop_words_stop(text: str) -> None:
    assert classify(text) is Interruption.STOP


@pytest.mark.parametrize(
    "text", ["What about tomorrow?", "Yeah but why", "No", "Stop the music in the kitchen now"]
)
def test_anything_else_takes_the_floor(text: str) -> None:
    assert classify(text) is Interruption.WORDS


@pytest.mark.parametrize("text", ["", "  ", "...", "?"])
def test_no_words_are_nothing(text: str) -> None:
    assert classify(text) is Interruption.NOTHING
