"""Where the time of a turn goes: parts on the client's clock that add up to the whole, to the millisecond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.timing import Mark

RECEIVED = "first_audio_received"
AUDIBLE = "first_audible"

# Every part is named for the moment that ends it, and says what was waited for until then.
PARTS: Mapping[str, str] = {
    Mark.PAUSE_SEEN.value: "notice the pause",
    Mark.ASR_FINAL.value: "finish the transcript",
    Mark.FIRST_TOKEN.value: "first token",
    Mark.FIRST_PHRASE.value: "first phrase",
    Mark.FIRST_AUDIO_MADE.value: "make first audio",
    Mark.TURN_END_DECIDED.value: "decide the turn is over",
    Mark.FIRST_AUDIO_SENT.value: "send first audio",
    RECEIVED: "receive it",
    AUDIBLE: "until it is audible",
}
# The same moments as narrow column heads.
SHORT: Mapping[str, str] = {
    Mark.PAUSE_SEEN.value: "pause\nseen",
    Mark.ASR_FINAL.value: "trans-\ncript",
    Mark.FIRST_TOKEN.value: "first\ntoken",
    Mark.FIRST_PHRASE.value: "first\nphrase",
    Mark.FIRST_AUDIO_MADE.value: "audio\nmade",
    Mark.TURN_END_DECIDED.value: "turn\nover",
    Mark.FIRST_AUDIO_SENT.value: "audio\nsent",
    RECEIVED: "audio\nthere",
    AUDIBLE: "audi-\nble",
}
_ORDER = {name: index for index, name in enumerate(PARTS)}


def break_down(marks_ms: Mapping[str, float], total_ms: float) -> dict[str, int]:
    """Consecutive differences of the marks in order of time; whole milliseconds whose sum is the rounded total.

    Marks count from the last sample of speech. One before it was work done while the user still spoke and costs
    nothing; one after the total came too late to be waited for. The total itself is the moment ``first_audible``.
    """
    total = round(total_ms)
    moments = {name: min(max(round(at), 0), total) for name, at in marks_ms.items() if name in _ORDER}
    moments[AUDIBLE] = total
    parts, before = {}, 0
    for name, at in sorted(moments.items(), key=lambda moment: (moment[1], _ORDER[moment[0]])):
        parts[name] = at - before
        before = at
    return parts


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The value below which ``percent`` of the values lie, interpolated between neighbours; None of nothing."""
    ranked = sorted(values)
    if not ranked:
        return None
    place = (len(ranked) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (ranked[above] - ranked[below]) * (place - below)
