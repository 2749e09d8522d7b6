"""The demo log: invented everyday dialogues, the same for the same seed, with a known rate of wrong replies.

A dialogue consists of an opener of one topic, one of the replies written for that opener, a follow-up that answers this
kind of reply, remarks of the topic, and mostly a goodbye. Its slots ({dish}, {day}) are drawn once and hold for all
turns. Slot values are drawn with a bias to the first ones, so that the same utterances recur with different responses.

Two things never occur here, because they are reserved for the test file (refaug.logs.demo.demo_items): one in eight
fillings of an opener, and one of the replies written for each opener.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import orjson

from refaug.core.errors import Usage
from refaug.logs.demo.registers import Moment, Register, say
from refaug.logs.demo.small_talk import GOODBYES, REPAIRS, SHORT
from refaug.logs.demo.topic_model import COMMON_SLOTS, Intent, Opener, Reply, Topic, fill
from refaug.logs.demo.topics import TOPICS

T = TypeVar("T")

START = datetime(2026, 1, 1, 6, tzinfo=UTC)
BETWEEN_DIALOGUES = timedelta(minutes=7)
SPEAKERS = 200
# One filling in so many is reserved for the test file.
HELD_OUT_ONE_IN = 8
# The preference for the first values of a slot: a uniform draw from [0, 1) to this power.
SLOT_BIAS = 1.2

LENGTHS = (2, 3, 4, 5, 6, 7, 8)
LENGTH_WEIGHTS = (14, 22, 25, 17, 11, 7, 4)
REGISTER_WEIGHTS: Mapping[Register, int] = {Register.CASUAL: 50, Register.TERSE: 22, Register.POLITE: 28}
DESK_REGISTER_WEIGHTS: Mapping[Register, int] = {**REGISTER_WEIGHTS, Register.DESK: 60}

SHORT_RATE = 0.02  # of turns that are only "Really?" or "Ok."
CLOSING_RATE = 0.6  # of dialogues of four turns or more that are closed
GOODBYE_RATE = 0.1  # of closings that fit any topic
LEFT_AFTER_WRONG = 0.8  # of dialogues that break off after a wrong turn; in the others the partner asks what it meant
TALKATIVE_RATE = 0.5  # of follow-ups with a remark added, so that one reply is followed up in many ways
OWN_ANSWER_RATE = 0.6  # of replies that ask a question and get the answer written for it, not one of the topic's


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """How many dialogues, from which seed, and which share of the response turns belongs to another topic."""

    dialogues: int = 20_000
    seed: int = 1
    noise: float = 0.08

    def __post_init__(self) -> None:
        if self.dialogues < 1:
            raise Usage(f"a demo log of {self.dialogues} dialogues", remedy="ask for at least 1")
        if not 0.0 <= self.noise <= 1.0:
            raise Usage(f"a noise of {self.noise}", remedy="give a share of the response turns between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class DemoTurn:
    """One utterance with its invented speaker and its time, ISO 8601 in UTC."""

    text: str
    speaker: str
    time: str


@dataclass(frozen=True, kw_only=True)
class DemoDialogue:
    """A dialogue with its author's labels; `wrong` are the positions of turns from another topic."""

    id: str
    turns: tuple[DemoTurn, ...]
    topic: str
    register: str
    wrong: frozenset[int]

    def as_json(self) -> dict[str, object]:
        """Return one line of the log; the key "wrong" is written only where a turn is wrong."""
        line: dict[str, object] = {
            "id": self.id,
            "turns": [{"text": turn.text, "speaker": turn.speaker, "time": turn.time} for turn in self.turns],
            "tags": [self.topic, self.register],
        }
        if self.wrong:
            line["wrong"] = sorted(self.wrong)
        return line


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The constants of a dialogue: topic, tone, and the values of the slots."""

    topic: Topic
    register: Register
    slots: Mapping[str, str]


def demo_dialogues(settings: DemoSettings) -> Iterator[DemoDialogue]:
    """Yield the dialogues.

    Dialogue i depends on seed, noise and i alone, so a short log is the beginning of a long one.
    """
    for number in range(1, settings.dialogues + 1):
        yield _dialogue(number, settings)


def demo_log_lines(settings: DemoSettings) -> Iterator[bytes]:
    """Yield the log as JSON Lines, each with its line end."""
    for dialogue in demo_dialogues(settings):
        yield orjson.dumps(dialogue.as_json()) + b"\n"


def draw_slots(topic: Topic, rng: random.Random) -> dict[str, str]:
    """Draw a value for every slot that a sentence of the topic may have, the first values more often."""
    return {
        name: values[int(len(values) * rng.random() ** SLOT_BIAS)]
        for slots in (COMMON_SLOTS, topic.slots)
        for name, values in slots.items()
    }


def draw_weighted(weights: Mapping[T, int], rng: random.Random) -> T:
    """Draw one key in proportion to its weight."""
    return rng.choices(list(weights), list(weights.values()))[0]


def draw_register(topic: Topic, rng: random.Random) -> Register:
    """Draw the tone of a dialogue; only some topics are suitable for a service desk."""
    return draw_weighted(DESK_REGISTER_WEIGHTS if topic.has_desk else REGISTER_WEIGHTS, rng)


def is_reserved(opening: str) -> bool:
    """Return whether this opener with these fillings is reserved for the test file.

    The text itself decides, by a checksum that is the same on every machine. Wordings without slots are never
    reserved: there is only one filling of them, and the log would lose it altogether.
    """
    return zlib.crc32(opening.encode()) % HELD_OUT_ONE_IN == 0


def reserved_reply(opener: Opener) -> Reply:
    """Return the one reply to the opener that is reserved for the test file, chosen by a checksum of the opener."""
    return opener.replies[zlib.crc32(opener.says[0].encode()) % len(opener.replies)]


def is_joke_at_desk(reply: Reply, register: Register) -> bool:
    """Return whether the reply is out of place because a service desk makes no jokes."""
    return register is Register.DESK and reply.intent is Intent.JOKE


def replies_in_log(opener: Opener, register: Register) -> list[Reply]:
    """Return the replies that the log may give to the opener in this tone."""
    reserved = reserved_reply(opener)
    return [reply for reply in opener.replies if reply is not reserved and not is_joke_at_desk(reply, register)]


def _dialogue(number: int, settings: DemoSettings) -> DemoDialogue:
    rng = random.Random(f"demo-log {settings.seed} {number}")  # noqa: S311 - a fixture, not a secret
    topic = rng.choice(TOPICS)
    opener = rng.choice(topic.openers)
    scene, opening = _open(topic, opener, rng)
    texts, wrong = _talk(scene, opener, opening, settings.noise, rng)
    return DemoDialogue(
        id=f"demo/{number:06d}",
        turns=_add_times(texts, START + number * BETWEEN_DIALOGUES, rng),
        topic=topic.name,
        register=scene.register.value,
        wrong=wrong,
    )


def _open(topic: Topic, opener: Opener, rng: random.Random) -> tuple[Scene, str]:
    """Draw until the filling belongs to the log; on average every eighth is drawn again."""
    wording = rng.choice(opener.says)
    while True:
        slots = draw_slots(topic, rng)
        opening = fill(wording, slots)
        if "{" not in wording or not is_reserved(opening):
            return Scene(topic=topic, register=draw_register(topic, rng), slots=slots), opening


def _talk(
    scene: Scene, opener: Opener, opening: str, noise: float, rng: random.Random
) -> tuple[list[str], frozenset[int]]:
    """Generate a dialogue from the opening on; also return the positions of turns from another topic."""
    length = rng.choices(LENGTHS, LENGTH_WEIGHTS)[0]
    remarks = rng.sample(scene.topic.later, len(scene.topic.later))
    texts = [say(opening, scene.register, Moment.OPENING, is_desk=False, rng=rng)]
    wrong: set[int] = set()
    before: Reply | None = None  # the turn before, if it was a reply to the opener
    for position in range(1, length):
        is_desk = position % 2 == 1
        if rng.random() < noise:
            texts.append(_stray(scene, is_desk, rng))
            wrong.add(position)
            if rng.random() < LEFT_AFTER_WRONG:
                break
            before = None
        elif position - 1 not in wrong and rng.random() < SHORT_RATE:
            texts.append(_short(scene, rng))
            before = None
        else:
            is_end = not remarks or (position == length - 1 and length > 3 and rng.random() < CLOSING_RATE)
            reply = rng.choice(replies_in_log(opener, scene.register)) if position == 1 else None
            is_lost = position - 1 in wrong
            line = reply.text if reply else _line(scene, before, remarks, is_end=is_end, is_lost=is_lost, rng=rng)
            moment = reply.intent if reply else Moment.LATER
            texts.append(say(fill(line, scene.slots), scene.register, moment, is_desk=is_desk, rng=rng))
            if is_end:
                break
            before = reply
    return texts, frozenset(wrong)


def _line(
    scene: Scene, before: Reply | None, remarks: list[str], *, is_end: bool, is_lost: bool, rng: random.Random
) -> str:
    """Choose a line after the first reply; remarks are used up, so that none occurs twice.

    `is_lost` means that the turn before came from another topic.
    """
    if is_lost:
        return rng.choice(REPAIRS).replace("{subject}", scene.topic.subject)
    if is_end:
        return rng.choice(GOODBYES if rng.random() < GOODBYE_RATE else scene.topic.closings)
    if before is not None:
        follow_up = _follow_up(scene.topic, before, rng)
        is_talkative = rng.random() < TALKATIVE_RATE
        # Filled here already, because a slot at the beginning of a second sentence needs its capital too.
        return f"{follow_up} {fill(remarks.pop(), scene.slots)}" if is_talkative else follow_up
    return remarks.pop()


def _follow_up(topic: Topic, reply: Reply, rng: random.Random) -> str:
    """Choose the first speaker's answer to this reply: the answer to its question, or one that fits its kind."""
    if reply.answer and rng.random() < OWN_ANSWER_RATE:
        return reply.answer
    return rng.choice([follow_up.text for follow_up in topic.follow_ups if follow_up.to is reply.intent])


def _short(scene: Scene, rng: random.Random) -> str:
    """Draw a reaction without content; it is never embellished, so that it stays short in every register."""
    text = rng.choice(SHORT)
    return text.lower().removesuffix(".") if scene.register is Register.TERSE else text


def _stray(scene: Scene, is_desk: bool, rng: random.Random) -> str:
    """Draw a reply from another topic, in the tone of this dialogue."""
    other = rng.choice([topic for topic in TOPICS if topic is not scene.topic])
    reply = rng.choice(replies_in_log(rng.choice(other.openers), scene.register))
    return say(fill(reply.text, draw_slots(other, rng)), scene.register, reply.intent, is_desk=is_desk, rng=rng)


def _add_times(texts: list[str], start: datetime, rng: random.Random) -> tuple[DemoTurn, ...]:
    """Assign the turns to two speakers alternately, some seconds or minutes apart."""
    first, second = rng.sample(range(1, SPEAKERS + 1), 2)
    time = start
    turns = []
    for position, text in enumerate(texts):
        time += timedelta(seconds=rng.randrange(5, 200))
        speaker = f"speaker-{second if position % 2 else first:03d}"
        turns.append(DemoTurn(text=text, speaker=speaker, time=time.strftime("%Y-%m-%dT%H:%M:%SZ")))
    return tuple(turns)
