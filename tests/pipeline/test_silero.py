"""Voice activity: frame by frame is the same as all at once, and conversations do not share a state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from faster_whisper.vad import get_vad_model

from audio.resample import resample
from audio.wav import read_recording
from pipeline.backends.silero import SileroModel
from pipeline.ports import RATE_HZ, VAD_FRAME_SAMPLES
from pipeline.store import Store


@pytest.fixture
def model() -> Iterator[SileroModel]:
    loaded = SileroModel()
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def speech(store: Store) -> np.ndarray:
    recording = read_recording(store.path("demo-recordings") / "beckett.wav")
    sound = resample(recording.samples, recording.rate_hz, RATE_HZ)[: 4 * RATE_HZ]
    return sound[: len(sound) // VAD_FRAME_SAMPLES * VAD_FRAME_SAMPLES].reshape(-1, VAD_FRAME_SAMPLES)


@pytest.mark.models
async def test_frames_one_by_one_equal_the_whole(model: SileroModel, speech: np.ndarray) -> None:
    activity = model.open()
    stepped = [probability for frame in speech for probability in await activity.push([frame])]
    # The whole-file run silences the end of its last frame while it lines up the contexts: that one differs.
    np.testing.assert_allclose(stepped[:-1], get_vad_model()(speech.ravel()).ravel()[:-1], atol=1e-4)
    assert max(stepped) > 0.9


@pytest.mark.models
@pytest.mark.parametrize("together", [2, 3, 8])
async def test_frames_that_come_together_are_judged_as_if_they_came_alone(
    model: SileroModel, speech: np.ndarray, together: int
) -> None:
    alone, at_once = model.open(), model.open()
    for start in range(0, 40, together):
        frames = list(speech[start : start + together])
        assert await at_once.push(frames) == [(await alone.push([frame]))[0] for frame in frames]


@pytest.mark.models
async def test_conversations_do_not_hear_each_other(model: SileroModel, speech: np.ndarray) -> None:
    alone, beside, other = model.open(), model.open(), model.open()
    silence = np.zeros(VAD_FRAME_SAMPLES, np.float32)
    for frame in speech[:40]:
        expected = await alone.push([frame])
        await other.push([silence])
        assert await beside.push([frame]) == expected


async def test_a_frame_of_another_size_is_a_bug_that_is_told(model: SileroModel) -> None:
    with pytest.raises(ValueError, match="512"):
        await model.open().push([np.zeros(100, np.float32)])


async def test_silence_is_not_speech(model: SileroModel) -> None:
    assert max(await model.open().push([np.zeros(VAD_FRAME_SAMPLES, np.float32)] * 30)) < 0.2


@pytest.mark.models
async def test_silence_leaves_an_ear_that_listens_afresh_as_it_is(model: SileroModel, speech: np.ndarray) -> None:
    silence, fresh, waiting = [np.zeros(VAD_FRAME_SAMPLES, np.float32)], model.open(), model.open()
    assert await waiting.push(silence * 9) == [0.0] * 9
    assert await waiting.push(list(speech[:9])) == await fresh.push(list(speech[:9]))


async def test_silence_after_sound_is_judged_until_the_ear_listens_afresh(model: SileroModel) -> None:
    silence, ear = [np.zeros(VAD_FRAME_SAMPLES, np.float32)], model.open()
    await ear.push([np.full(VAD_FRAME_SAMPLES, 0.01, np.float32)])
    assert await ear.push(silence) != [0.0]
    ear.reset()
    assert await ear.push(silence) == [0.0]
