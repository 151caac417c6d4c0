"""Recorded: the words in a recording that comes whole, outside of any turn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from audio.framer import Framer
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES, Recogniser, Samples, VoiceActivity

# A recogniser hears half a minute at a time. A longer recording is cut where speech is least likely.
STRETCH_FRAMES = 25 * RATE_HZ // VAD_FRAME_SAMPLES
SHORTEST_FRAMES = 15 * RATE_HZ // VAD_FRAME_SAMPLES
# Where nobody spoke a recogniser would hear words in the noise.
SPOKEN = 0.5


async def words_in(sound: Samples, activity: VoiceActivity, recogniser: Recogniser) -> str:
    """What is said in the recording; "" if nobody speaks. Raises StageError.

    ``activity`` has heard nothing else.
    """
    frames = Framer(VAD_FRAME_SAMPLES).push(np.pad(sound, (0, -len(sound) % VAD_FRAME_SAMPLES)))
    speech = np.array([probability for frame in frames for probability in await activity.push([frame])])
    said: list[str] = []
    for start, end in _stretches(speech):
        if speech[start:end].max() >= SPOKEN:
            stretch = np.concatenate(frames[start:end])
            said.append((await recogniser.recognise(stretch, prompt=" ".join(said), final=True)).text)
    return " ".join(said)


def _stretches(speech: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """First frame and the one after the last of each part."""
    start = 0
    while len(speech) - start > STRETCH_FRAMES:
        choices = speech[start + SHORTEST_FRAMES : start + STRETCH_FRAMES]
        end = start + SHORTEST_FRAMES + int(choices.argmin()) + 1
        yield start, end
        start = end
    if start < len(speech):
        yield start, len(speech)
