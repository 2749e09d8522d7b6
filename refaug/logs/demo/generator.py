"""The demo log: invented everyday dialogues, the same for the same seed, with a known rate of wrong replies.

A dialogue consists of an opener of one topic, one of the replies written for that opener, a follow-up that answers this
kind of reply, remarks of the topic, and mostly a goodbye. Its slots ({dish}, {day}) are drawn once and hold for all
turns. Slot values are drawn with a bias to the first ones, so that the same utterances recur with different responses.

Two things never occur here, because they are reserved for the test file (refaug.logs.demo.demo_items): one in eight
fillings of an opener, and one of the replies written for each opener.
"""

from __future__ import annotations

import enum
import random
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import orjson

from refaug.core.errors import Usage
from refaug.logs.demo.topics import COMMON_SLOTS, TOPICS, Intent, Opener, Reply, Topic, fill

# ── Sentences for every topic: short reactions, repairs, goodbyes, and replies that fit everywhere a little ───────────
#
# Sentences of four words and more that others answer name the topic's {subject}, because pairs of answers to one
# utterance are what the rater learns from; a long utterance that fits everywhere would teach it that anything goes.

# At most three words: the utterances that have hundreds of different answers in every real log.
SHORT = (
    "Ok.",
    "Really?",
    "Oh no!",
    "I see.",
    "Sure.",
    "Hm, maybe.",
    "Right.",
    "Go on.",
    "Is that so?",
    "Fair enough.",
    "No way!",
    "Good point.",
)

# After a turn that belongs elsewhere.
REPAIRS = (
    "Is this the wrong chat? We were talking about {subject}.",
    "Sorry, what does that have to do with {subject}?",
    "I think you mixed up two chats, this one is about {subject}.",
    "You lost me there. Back to {subject}, please.",
    "That was meant for somebody else, I guess. I was still at {subject}.",
    "Pardon? My question was about {subject}.",
    "Funny, but I would rather hear your thoughts on {subject}.",
    "Wrong window, I suppose, because we had stopped at {subject}.",
    "How did we get from {subject} to that?",
    "Let us stay with {subject} for a moment, I am confused.",
)

# Only ever last turns, so nothing answers them.
GOODBYES = (
    "Thanks, talk to you soon.",
    "Bye for now!",
    "Have a nice evening.",
    "I have to go, take care.",
    "Good, that settles it then.",
    "See you around.",
    "Thank you very much for your help.",
    "All right, I will let you know.",
)

# Replies that fit everywhere a little are put together from a beginning and, where length asks for it, an end.
VAGUE_BEGINNINGS = (
    "I am not sure.",
    "That sounds nice.",
    "I don't know.",
    "That is hard to say.",
    "Yes, I think so too.",
    "Well, it depends.",
    "I would have to think about it.",
    "That is a good question.",
    "I am not sure, but that sounds nice.",
    "It is the same with me and {subject}, I think.",
    "I really don't know what to say to that.",
    "Yes, that is how it is with {subject}.",
    "I don't know much about {subject}.",
    "You know more about {subject} than I do.",
    "I have not thought about {subject} for a long time.",
    "It is always the same with {subject}.",
    "There is a lot to say about {subject}, I think.",
    "That is what people say about {subject}, and maybe it is true.",
    "I would not worry about {subject}.",
    "It is hard to say with {subject}.",
    "Oh, {subject} again.",
    "So it is about {subject}.",
    "I think {subject} is not for me.",
    "I would ask about {subject} on {day}.",
    "It will be all right with {subject} in the end.",
    "That may be so, or it may not.",
    "I have heard that before, and I think it is true.",
)
VAGUE_ENDS = (
    "Let me know.",
    "We will see.",
    "What do you think?",
    "It is up to you.",
    "That is all I can say about it.",
    "I hope it all goes well for you.",
    "Maybe you can ask somebody who knows about {subject}.",
    "But I am sure that you will find a way.",
    "I would do the same if I were you.",
    "You can always tell me more about {subject} on {day}.",
    "In the end it is only {subject}, and that is not the whole world.",
    "I will be there if you need me.",
    "It was like that before and it will be like that again.",
    "But then, that is only what I think, and I may be wrong.",
)


# ── How the same sentence is said among friends, politely, in a hurried text message, and at a service desk ───────────


class Register(enum.Enum):
    """The tone of a whole dialogue; the sentences of the topics are written in the casual one."""

    CASUAL = "casual"
    POLITE = "polite"
    TERSE = "terse"
    DESK = "desk"


class Moment(enum.Enum):
    """Where a sentence stands in a dialogue; used for sentences that are no replies, and so have no intent."""

    OPENING = "opening"
    LATER = "later"


FULL_FORMS = {
    "aren't": "are not",
    "can't": "cannot",
    "didn't": "did not",
    "doesn't": "does not",
    "don't": "do not",
    "hasn't": "has not",
    "haven't": "have not",
    "he's": "he is",
    "I'll": "I will",
    "I'm": "I am",
    "I've": "I have",
    "isn't": "is not",
    "it's": "it is",
    "let's": "let us",
    "needn't": "need not",
    "that's": "that is",
    "they're": "they are",
    "wasn't": "was not",
    "we'll": "we will",
    "we're": "we are",
    "won't": "will not",
    "wouldn't": "would not",
    "you're": "you are",
}
TEXTING = {
    "because": "cos",
    "please": "pls",
    "tonight": "tonite",
    "you": "u",
    "your": "ur",
    "are": "r",
    "thanks": "thx",
    "tomorrow": "tmrw",
    "and": "n",
    "for": "4",
}

POLITE_LEADS: dict[Intent | Moment, tuple[str, ...]] = {
    Moment.OPENING: ("Excuse me.", "Good morning.", "Perhaps you can help me."),
    Moment.LATER: ("I see.", "Indeed.", "Thank you for your patience."),
    Intent.AGREE: ("I quite agree.", "With pleasure.", "Thank you for mentioning it."),
    Intent.ASK: ("May I ask you something?", "If I may ask:"),
    Intent.ADVISE: ("If I may give some advice:", "Perhaps this helps."),
    Intent.SYMPATHISE: ("I am truly sorry.", "I do feel for you."),
    Intent.DECLINE: ("I am afraid I see it differently.", "Forgive me for saying so."),
    Intent.JOKE: ("Please don't take this seriously.", "Allow me a little joke."),
    Intent.TELL: ("As far as I know:", "I am glad to tell you what I know."),
}
DESK_LATER_LEADS = ("Certainly.", "Of course.", "Thank you for the information.")
DESK_LEADS = (
    "Thank you for your message.",
    "Good morning, how kind of you to write.",
    "Hello and thank you for asking.",
)
DESK_ENDS = ("Kind regards from the desk.", "Is there anything else we can do for you?", "We are glad to help.")

# How often a polite or a desk sentence is dressed up: often enough to be seen, seldom enough that sentences recur.
DRESSED = 0.3

_CONTRACTION = re.compile(r"\b(" + "|".join(FULL_FORMS) + r")\b", re.IGNORECASE)
_TEXTING = re.compile(r"\b(" + "|".join(TEXTING) + r")\b")


def _full_form(match: re.Match[str]) -> str:
    short_form = match.group(1)
    full = FULL_FORMS.get(short_form) or FULL_FORMS.get(short_form.lower(), short_form)
    return full[0].upper() + full[1:] if short_form[0].isupper() else full


def terse(text: str) -> str:
    """Type it with the thumbs: lower case, no commas, no apostrophes, no full stop, a few short spellings."""
    bare = text.lower().replace(",", "").replace("'", "").removesuffix(".")
    return _TEXTING.sub(lambda match: TEXTING[match.group(1)], bare)


def polite(text: str) -> str:
    """Spell the contractions out."""
    return _CONTRACTION.sub(_full_form, text) if "'" in text else text


def say(text: str, register: Register, moment: Intent | Moment, *, is_desk: bool, rng: random.Random) -> str:
    """Put a casual sentence into the register; `is_desk` marks the turns of the second speaker."""
    if register is Register.CASUAL:
        return text
    if register is Register.TERSE:
        return terse(text)
    text = polite(text)
    if rng.random() >= DRESSED:
        return text
    if register is Register.DESK and is_desk:
        leads = DESK_LATER_LEADS if moment is Moment.LATER else DESK_LEADS
        return f"{rng.choice(leads)} {text}" if rng.random() < 0.5 else f"{text} {rng.choice(DESK_ENDS)}"
    return f"{rng.choice(POLITE_LEADS[moment])} {text}"


# ── The demo log: invented everyday dialogues, the same for the same seed, with a known rate of wrong replies ─────────

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
