"""Made-up recall dialogues: three things are said, then one of them is asked for.

The values of the test split (a fifth of all names, places, times and numbers, by hash) are never trained on.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Literal, NamedTuple

from codec.dialogues import SYSTEMS, Example, Turn

Split = Literal["train", "test"]

_NAMES = """
Adam Agnes Alice Amara Andre Anita Arthur Astrid Beatrice Bernard Bianca Boris Bruno Camille Carlos Cecilia
Clara Claude Conrad Dalia Daniel Daphne Diego Dora Edgar Elena Elias Elsa Emil Esther Eva Fabian Felix Fiona
Florence Frank Frida Gavin Gemma George Gloria Grace Greta Gustav Hannah Harold Hector Helen Henry Hugo Ida
Ingrid Irene Isaac Ivan Jasmine Jerome Joan Jonas Judith Julia Karim Katya Kenneth Kira Laura Leila Leonard Liam
Lionel Louise Lucas Lydia Magnus Marcus Maria Martha Matilda Maurice Maya Mia Miles Milo Mona Nadia Naomi Nathan
Nina Noah Nora Olga Oliver Oscar Otto Paula Peter Philip Priya Quentin Rachel Ralph Ravi Rebecca Rita Robert
Rosa Ruth Samuel Sarah Selma Simon Sofia Stella Sven Tara Theodore Thomas Uma Ursula Valentin Vera Victor Viola
Walter Wanda Willa Xavier Yasmin Yusuf Zoe
"""
_PLACES = """
Amsterdam Antwerp Athens Atlanta Austin Barcelona Basel Beirut Bergen Berlin Bogota Bologna Boston Bristol
Brussels Budapest Cairo Calgary Cardiff Chicago Cologne Copenhagen Cork Dallas Delhi Denver Detroit Dublin
Edinburgh Florence Geneva Genoa Glasgow Granada Hamburg Hanoi Havana Helsinki Houston Istanbul Jakarta Kyoto
Leeds Leipzig Lima Lisbon Liverpool London Lyon Madrid Malaga Manchester Marseille Memphis Miami Milan Montreal
Moscow Munich Nairobi Naples Nashville Oslo Ottawa Oxford Palermo Paris Phoenix Porto Portland Prague Quebec
Riga Rome Salzburg Seattle Seoul Seville Sofia Stockholm Sydney Tampa Tokyo Toronto Turin Utrecht Valencia
Venice Vienna Warsaw York Zagreb Zurich
"""
_KIN = ("sister", "brother", "uncle", "aunt", "cousin", "neighbor", "dentist", "teacher", "boss", "landlord")
_THINGS = ("keys", "passport", "bicycle", "camera", "umbrella", "suitcase", "violin", "ladder", "tent", "charger")


class _Fact(NamedTuple):
    """``{v}`` is the value, ``{x}`` what it belongs to. Said by the user, by the assistant, asked, answered."""

    kind: str
    subjects: tuple[str, ...]
    user: tuple[str, ...]
    assistant: tuple[str, ...]
    question: tuple[str, ...]
    reply: str


_FACTS = (
    _Fact(
        "name",
        _KIN,
        ("My {x} is called {v}.", "By the way, {v} is my {x}.", "I have a new {x}, her name is {v}."),
        ("So your {x} is called {v}, good to know.", "I noted that {v} is your {x}."),
        ("What is my {x} called?", "Do you remember the name of my {x}?"),
        "Your {x} is called {v}.",
    ),
    _Fact(
        "name",
        ("lunch", "the meeting", "the concert", "the museum", "the interview", "the party"),
        ("I am going to {x} with {v}.", "{v} is coming along to {x}.", "For {x} I will bring {v}."),
        ("Then {v} will be with you at {x}.", "I have put {v} down for {x}."),
        ("Who is coming with me to {x}?", "Who did I say joins me for {x}?"),
        "{v} is coming with you.",
    ),
    _Fact(
        "place",
        _KIN,
        ("My {x} lives in {v}.", "My {x} has just moved to {v}.", "I will visit my {x} in {v}."),
        ("I see that your {x} lives in {v}.", "Your {x} moved to {v} then."),
        ("Where does my {x} live?", "In which city is my {x}?"),
        "Your {x} lives in {v}.",
    ),
    _Fact(
        "place",
        ("conference", "wedding", "match", "course", "holiday", "concert"),
        (
            "The {x} will be in {v} this year.",
            "We fly to {v} for the {x}.",
            "I booked a hotel in {v} for the {x}.",
        ),
        ("I found that the {x} is in {v}.", "Your {x} takes place in {v}."),
        ("Where is the {x}?", "And in what city will the {x} be?"),
        "The {x} is in {v}.",
    ),
    _Fact(
        "time",
        ("train", "bus", "flight", "ferry", "taxi", "tram"),
        ("My {x} leaves at {v}.", "The {x} I take goes at {v}.", "I must catch the {x} at {v}."),
        ("Your {x} leaves at {v}.", "There is a {x} at {v}, I have booked it."),
        ("When does my {x} leave?", "At what time is the {x}?"),
        "Your {x} leaves at {v}.",
    ),
    _Fact(
        "time",
        ("doctor", "hairdresser", "bank", "plumber", "restaurant", "garage"),
        ("I have an appointment with the {x} at {v}.", "The {x} expects me at {v}."),
        ("Your appointment with the {x} is at {v}.", "The {x} has time for you at {v}."),
        ("When is my appointment with the {x}?", "What time did we say for the {x}?"),
        "It is at {v}.",
    ),
    _Fact(
        "number",
        ("room", "locker", "gate", "apartment", "order", "seat"),
        ("My {x} number is {v}.", "They gave me {x} number {v}.", "Please note {x} {v}."),
        ("Your {x} number is {v}.", "You have been given {x} {v}."),
        ("What is my {x} number?", "Which {x} was it?"),
        "Your {x} number is {v}.",
    ),
    _Fact(
        "number",
        _THINGS,
        ("I paid {v} dollars for my {x}.", "The new {x} cost me {v} dollars."),
        ("I found the {x} for {v} dollars.", "The {x} would be {v} dollars."),
        ("How much was the {x}?", "What did the {x} cost?"),
        "It was {v} dollars.",
    ),
    _Fact(
        "place",
        _THINGS,
        ("I left my {x} in {v}.", "My {x} is still in {v}, I forgot it there."),
        ("So your {x} is still in {v}.", "I understand that you left the {x} in {v}."),
        ("Where did I leave my {x}?", "Where is my {x}?"),
        "You left it in {v}.",
    ),
)


def _time(rng: random.Random) -> str:
    return f"{rng.randint(1, 12)}:{rng.randrange(0, 60, 5):02d}"


_DRAW: dict[str, Callable[[random.Random], str]] = {
    "name": lambda rng: rng.choice(_NAMES.split()),
    "place": lambda rng: rng.choice(_PLACES.split()),
    "time": _time,
    "number": lambda rng: str(rng.randint(11, 999)),
}


def _value(kind: str, split: Split, rng: random.Random) -> str:
    while True:
        value = _DRAW[kind](rng)
        if (zlib.crc32(value.encode()) % 5 == 0) == (split == "test"):
            return value


def recall(count: int, split: Split, seed: int, size: int = 3) -> list[Example]:
    """``count`` dialogues of ``size`` facts; each fact is as likely to be the one that is asked for."""
    rng = random.Random(f"{split}{seed}")
    return [_dialogue(split, size, rng) for _ in range(count)]


def _dialogue(split: Split, size: int, rng: random.Random) -> Example:
    facts = rng.sample(_FACTS, size)
    asked = rng.randrange(size)
    segments: list[Turn] = []
    for age, fact in zip(reversed(range(size)), facts, strict=True):
        role = "assistant" if age % 2 == 0 else "user"  # the user speaks next
        subject, value = rng.choice(fact.subjects), _value(fact.kind, split, rng)
        said = rng.choice(fact.assistant if role == "assistant" else fact.user)
        segments.append(Turn(role, said.format(x=subject, v=value)))
        if len(segments) - 1 == asked:
            question = rng.choice(fact.question).format(x=subject)
            reply, answer = fact.reply.format(x=subject, v=value), value
    others: set[str] = set()
    while len(others) < 4:
        others |= {_value(facts[asked].kind, split, rng)} - {answer}
    return Example(rng.choice(SYSTEMS), tuple(segments), question, reply, answer, tuple(sorted(others)))
