"""``echoic bench followups``: does a second question still know what the first was about, and for how long?"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.clip import STALL_S, Visit
from clients.hearing import Reply, play_back
from clients.options import add_model_options, config_from
from clients.realtime import RATE_HZ, RealtimeClient, ServerGone, connect
from clients.recordings import Recording
from clients.tables import titled
from clients.traces import kept_by, own_texts, word_pairs
from clients.uplink import Uplink, open_uplink
from pipeline.config import Config
from pipeline.ports import Voice
from pipeline.timing import loop_clock

if TYPE_CHECKING:
    from server.app import Server

SOON_S, LATE_S = 1.0, 4.0  # after the reply to the first question was heard
DIALOGUES = (
    ("My sister is called Clara.", "What is my sister called?", "Clara"),
    ("My brother lives in Vienna.", "Where does my brother live?", "Vienna"),
    ("My train leaves at ten fifteen.", "When does my train leave?", "10:15"),
    ("I left my bicycle in Paris.", "Where did I leave my bicycle?", "Paris"),
    ("My dentist is called Henry.", "What is my dentist called?", "Henry"),
    ("My room number is forty two.", "What is my room number?", "42"),
    ("The wedding will be in Rome this year.", "Where is the wedding?", "Rome"),
    ("I am going to lunch with Martha.", "Who is coming with me to lunch?", "Martha"),
    ("My aunt has just moved to Berlin.", "In which city is my aunt?", "Berlin"),
    ("I paid ninety dollars for my camera.", "How much was the camera?", "90"),
    ("My teacher is called Oscar.", "Do you remember the name of my teacher?", "Oscar"),
    ("We fly to Madrid for the concert.", "Where is the concert?", "Madrid"),
    ("My bus leaves at eleven thirty.", "When does my bus leave?", "11:30"),
    ("My uncle lives in Chicago.", "In which city is my uncle?", "Chicago"),
    ("My keys are still in Boston.", "Where are my keys?", "Boston"),
    ("My boss is called Laura.", "What is my boss called?", "Laura"),
    ("They gave me gate number seventeen.", "Which gate was it?", "17"),
    ("I will visit my cousin in Dublin.", "Where does my cousin live?", "Dublin"),
    ("My neighbor is called Walter.", "What is my neighbor called?", "Walter"),
    ("The conference will be in London.", "And in what city will the conference be?", "London"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to the second question, and what it was given: ``state_bits`` is the entropy of its state.

    ``kept``: texts still in the server after it, that hold two words in a row of the first turn.
    """

    heard: str
    text: str
    state_bits: float | None
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FollowUp:
    """One dialogue, its second question asked in several ways; ``problem`` where one of them broke."""

    first: str
    second: str
    value: str
    answers: dict[str, Answer] = field(default_factory=dict)
    problem: str = ""

    def told(self, way: str) -> bool:
        """Whether the answer has the value that only the first turn told."""
        return f" {_plain(self.value)} " in f" {_plain(self.answers[way].text)} "

    def changed(self, way: str) -> bool:
        """Whether the answer is another than to someone who was told nothing."""
        return self.answers[way].text != self.answers["alone"].text

    @property
    def gone(self) -> bool:
        """Whether after the expiry there is no state, and the answer to the same words is as if told nothing."""
        if self.problem:
            return False
        late, alone = self.answers["late"], self.answers["alone"]
        return late.state_bits is None and (late.text == alone.text or late.heard != alone.heard)


def _plain(text: str) -> str:
    """Words and numbers alone: "10:15" and "10 15." are the same time."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


def add_parser(checks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the check to argparse."""
    parser = checks.add_parser(
        "followups",
        help="two-turn dialogues in private mode: what the second turn knows of the first",
        description="The built-in voice says something and then asks about it: one second after the reply, after "
        "four, and in a session that was told nothing; and once more with a text history. After the second turn "
        "the server is searched for the words of the first. About fifteen minutes for all 20.",
    )
    parser.add_argument("--dialogues", type=int, default=len(DIALOGUES), metavar="N", help="the first N (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was said")
    add_model_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Ask and tell; 0 if after the expiry no second turn knew of the first and the server kept nothing of it."""
    results = asyncio.run(_ask_all(config_from(args), args.dialogues, console))
    console.print(render_followups(results))
    kept = sum(bool(answer.kept) for result in results for answer in result.answers.values())
    gone = sum(result.gone for result in results)
    console.print(f"gone after {LATE_S:.0f} s: {gone} of {len(results)}; sessions that kept words: {kept}")
    if args.json:
        args.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return int(gone < len(results) or kept > 0)


async def _ask_all(config: Config, count: int, console: Console) -> list[FollowUp]:
    from server.app import Server

    private = replace(config, memory=replace(config.memory, mode="echoic"))
    exact = replace(config, memory=replace(config.memory, mode="exact"))
    results = []
    async with (
        Server(private) as server,
        Server(exact, models=server.models, voice=server.voice) as with_text,
    ):
        for dialogue in DIALOGUES[:count]:
            results.append(await follow_up(dialogue, server, with_text))
            console.print(_line(results[-1]), soft_wrap=True)
    return results


async def follow_up(dialogue: tuple[str, str, str], private: Server, exact: Server) -> FollowUp:
    """One dialogue in every way. Never raises for what the server does."""
    first, second, value = dialogue
    said, asked = [await spoken(text, private.voice) for text in (first, second)]
    answers: dict[str, Answer] = {}
    try:
        answers["soon"] = await converse(private, [said, asked], SOON_S)
        answers["late"] = await converse(private, [said, asked], LATE_S)
        answers["alone"] = await converse(private, [asked])
        answers["text"] = await converse(exact, [said, asked], SOON_S)
    except ServerGone as error:
        return FollowUp(first, second, value, answers, str(error))
    return FollowUp(first, second, value, answers)


async def spoken(text: str, voice: Voice) -> Recording:
    """Words in the built-in voice."""
    speech = await voice.speak(text)
    return Recording(Path(f"{text}.wav"), speech.samples, speech.rate_hz, text)


async def converse(server: Server, utterances: Sequence[Recording], gap_s: float = 0.0) -> Answer:
    """Say these in one session, each so long after the reply before it was heard; the reply to the last one."""
    private = server.config.memory.mode == "echoic"
    own = own_texts(server) if private else frozenset[str]()
    async with connect(server.realtime_url, timing=True) as client:
        await client.configure(audio={"input": {"transcription": {"model": "default"}}})
        async with open_uplink(client) as uplink:
            replies: list[Reply] = []
            for utterance in utterances:
                if replies:
                    await asyncio.sleep(_silent_from(replies[-1]) + gap_s - loop_clock())
                replies.append(await _answered(utterance, client, uplink))
            *before, reply = replies
            kept: list[str] = []
            if private:
                kept = kept_by(server, _only_in(before, reply), (utterances, replies, client, uplink), own)
    return Answer(reply.heard, reply.text, (reply.record or {}).get("state_entropy_bits"), tuple(kept))


async def _answered(utterance: Recording, client: RealtimeClient, uplink: Uplink) -> Reply:
    """The reply to an utterance; raises ServerGone where there is none."""
    sound = utterance.at(RATE_HZ)
    visit = Visit(utterance, uplink, begins_s=uplink.speak(sound), no_reply_s=STALL_S)
    await visit.listen(client)
    if not visit.hearing.replies:
        raise ServerGone(f"no reply to {utterance.transcript!r}")
    return visit.hearing.replies[-1]


def _only_in(before: Sequence[Reply], last: Reply) -> list[str]:
    """Every two words in a row of earlier turns that the last turn does not have as well."""
    again = f"{last.heard} {last.text}".lower()
    pairs = [pair for reply in before for text in (reply.heard, reply.text) for pair in word_pairs(text)]
    return [pair for pair in pairs if pair.lower() not in again]


def _silent_from(reply: Reply) -> float:
    """When the reply was heard to its end, on the loop's clock."""
    playback = play_back(reply.pieces)
    return playback.ends_at if playback else loop_clock()


def _line(result: FollowUp) -> str:
    told = "  ".join(f"[dim]{name}[/] {escape(answer.text)}" for name, answer in result.answers.items())
    return f"[bold]{escape(result.first)}[/] {escape(result.second)}  {told} {escape(result.problem)}"


def render_followups(results: Sequence[FollowUp]) -> Table:
    """What the second turn knew, by how it was asked."""
    table = titled("Follow-ups")
    for head in ("second turn", "given a state", "has the value", "not as if told nothing"):
        table.add_column(head, justify="left" if head == "second turn" else "right")
    ways = {
        "soon": f"after {SOON_S:.0f} s",
        "late": f"after {LATE_S:.0f} s",
        "alone": "told nothing",
        "text": f"after {SOON_S:.0f} s, text history",
    }
    held = [result for result in results if not result.problem]
    for way, label in ways.items():
        given = sum(result.answers[way].state_bits is not None for result in held)
        counts = given, sum(result.told(way) for result in held), sum(result.changed(way) for result in held)
        table.add_row(label, *(f"{count} of {len(held)}" for count in counts))
    return table
