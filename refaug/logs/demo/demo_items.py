"""The demo test file: items with a gold, the replies of four imaginary systems of known order, and simulated ratings.

The items are separated from the demo log of any seed:

 - An item's utterance is an opener in a filling that the log never uses (`generator.is_reserved`), so no pair of the
   log has the item's utterance, and no pair (utterance, gold) is a line of the log. The wording with other fillings,
   and replies that mention no slot, do occur there: they are what retrieval is meant to find.
 - More than half of the human-like replies have words that the log never uses for a reply (reserved_reply).
 - Its dialogue id is none of the log's, and its time is after the log's end (of 20,000 dialogues and many more).

Reply length does not reveal the quality: the replies of the other systems are chosen to be about as long as the
human-like one, and the rows of ratings are assigned to the items in the order, among several shufflings, that
correlates least with length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt

import orjson

from refaug.core.errors import Usage
from refaug.logs.demo import generator
from refaug.logs.demo.generator import VAGUE_BEGINNINGS, VAGUE_ENDS, Moment, Register, say
from refaug.logs.demo.topics import COMMON_SLOTS, SLOT, TOPICS, Intent, Opener, Topic, fill

START = datetime(2027, 6, 1, 9, tzinfo=UTC)
BETWEEN_ITEMS = timedelta(minutes=11)

HUMAN_LIKE, DECENT, GENERIC, RANDOM = "human-like", "decent", "generic", "random"
# The quality of a system's replies on the annotators' scale from 1 to 5, before anything varies.
QUALITY: Mapping[str, float] = {HUMAN_LIKE: 4.3, DECENT: 3.4, GENERIC: 2.5, RANDOM: 1.6}

# Standard deviations on that scale, chosen for a mean Spearman correlation between annotators of about .6.
ITEM_SPREAD = 0.3
REPLY_SPREAD = 0.45
ANNOTATOR_SPREAD = 0.25
RATING_SPREAD = 0.85

CANDIDATES = 60  # replies from which the one nearest in length is chosen
RESERVED_REPLY_RATE = 0.6  # of human-like replies that are not in the log, whatever the filling
RELATED_LINES = 8  # enough lines about the same things to find one of suitable length
FILLING_TRIES = 40  # draws until an opener has a reserved filling that is not yet used
MISSES = 200  # openers tried without success before a filling may come twice
CHARACTERS_PER_TOKEN = 5.3  # makes a difference in characters comparable with one in tokens


@dataclass(frozen=True, kw_only=True)
class DemoItemSettings:
    """How many test items, from which seed, rated by how many annotators."""

    items: int = 200
    seed: int = 1
    annotators: int = 4

    def __post_init__(self) -> None:
        if self.items < 1:
            raise Usage(f"a demo test file of {self.items} items", remedy="ask for at least 1")
        if self.annotators < 1:
            raise Usage(f"ratings by {self.annotators} annotators", remedy="ask for at least 1")


@dataclass(frozen=True, kw_only=True)
class DemoItem:
    """One line of the test file; ratings are whole numbers from 1 to 5, one per annotator."""

    id: str
    utterance: str
    references: tuple[str, ...]
    replies: Mapping[str, str]
    ratings: Mapping[str, tuple[int, ...]]
    dialogue: str
    time: str

    def as_json(self) -> dict[str, object]:
        """Return the item in the one format of test files, gold first."""
        return {
            "id": self.id,
            "utterance": self.utterance,
            "references": list(self.references),
            "replies": dict(self.replies),
            "ratings": {system: list(ratings) for system, ratings in self.ratings.items()},
            "dialogue": self.dialogue,
            "time": self.time,
        }


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """The texts of an item before rating."""

    utterance: str
    gold: str
    replies: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ItemScene:
    """An opener in a reserved filling, with everything needed to answer it in the same tone."""

    topic: Topic
    opener: Opener
    wording: str
    register: Register
    slots: Mapping[str, str]

    def opening(self) -> str:
        """Return the filled wording, which is the utterance before it is put into the register."""
        return fill(self.wording, self.slots)

    def says(self, template: str, moment: Intent | Moment, rng: random.Random) -> str:
        """Return a sentence of the topic, or one for any topic, as the second speaker says it."""
        text = fill(template.replace("{subject}", self.topic.subject), self.slots)
        return say(text, self.register, moment, is_desk=True, rng=rng)


def demo_items(settings: DemoItemSettings) -> list[DemoItem]:
    """Write the texts, simulate the ratings, and assign the ratings so that length says nothing about them."""
    rng = random.Random(f"demo-items {settings.seed}")  # noqa: S311 - a fixture, not a secret
    used: set[str] = set()
    exchanges = [_exchange(_draw_scene(used, rng), rng) for _ in range(settings.items)]
    ratings = _assign_ratings(exchanges, _ratings(settings, rng), rng)
    return [
        DemoItem(
            id=f"demo-item-{number:04d}",
            utterance=exchange.utterance,
            references=(exchange.gold,),
            replies=exchange.replies,
            ratings=rated,
            dialogue=f"demo-items/{number:06d}",
            time=(START + number * BETWEEN_ITEMS).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        for number, (exchange, rated) in enumerate(zip(exchanges, ratings, strict=True), start=1)
    ]


def demo_item_lines(settings: DemoItemSettings) -> Iterator[bytes]:
    """Yield the test file as JSON Lines, each with its line end."""
    for demo_item in demo_items(settings):
        yield orjson.dumps(demo_item.as_json()) + b"\n"


def _draw_scene(used: set[str], rng: random.Random) -> ItemScene:
    """Draw a reserved opening; a used one comes again only if no other is found."""
    misses = 0
    while True:
        topic = rng.choice(TOPICS)
        opener = rng.choice(topic.openers)
        wording = rng.choice(opener.says)
        register = generator.draw_register(topic, rng)
        for _ in range(FILLING_TRIES if "{" in wording else 0):
            scene = ItemScene(
                topic=topic, opener=opener, wording=wording, register=register, slots=generator.draw_slots(topic, rng)
            )
            opening = scene.opening()
            if generator.is_reserved(opening) and (opening not in used or misses > MISSES):
                used.add(opening)
                return scene
        misses += 1


def _exchange(scene: ItemScene, rng: random.Random) -> Exchange:
    """Write gold and replies: human-like is another reply to this opener, and the others follow its length."""
    gold, human_like = rng.sample(generator.replies_in_log(scene.opener, scene.register), 2)
    reserved = generator.reserved_reply(scene.opener)
    if rng.random() < RESERVED_REPLY_RATE and not generator.is_joke_at_desk(reserved, scene.register):
        human_like = reserved
    goal = scene.says(human_like.text, human_like.intent, rng)
    gold_text = scene.says(gold.text, gold.intent, rng)
    return Exchange(
        utterance=say(scene.opening(), scene.register, Moment.OPENING, is_desk=False, rng=rng),
        gold=gold_text,
        replies={
            HUMAN_LIKE: goal,
            DECENT: _nearest(goal, _decent(scene, rng)),
            GENERIC: _nearest(goal, _generic(scene, rng)),
            RANDOM: _nearest(goal, _random(scene, rng)),
        },
    )


def _decent(scene: ItemScene, rng: random.Random) -> list[str]:
    """Collect replies to the other openers of the topic, and its remarks: relevant, but not to the point.

    Those that mention the same things as the utterance are preferred if there are enough of them.
    """
    other_openers = [opener for opener in scene.topic.openers if opener is not scene.opener]
    lines: list[tuple[str, Intent | Moment]] = [
        (reply.text, reply.intent)
        for opener in other_openers
        for reply in generator.replies_in_log(opener, scene.register)
    ]
    lines += [(remark, Moment.LATER) for remark in scene.topic.later]
    things = set(SLOT.findall(scene.wording)) - set(COMMON_SLOTS)
    related = [line for line in lines if things.intersection(SLOT.findall(line[0]))]
    chosen = related if len(related) >= RELATED_LINES else lines
    return [scene.says(text, moment, rng) for text, moment in chosen]


def _generic(scene: ItemScene, rng: random.Random) -> list[str]:
    """Collect replies that fit everywhere a little, short and long."""
    ends = ("", *(f" {end}" for end in VAGUE_ENDS))
    return [scene.says(rng.choice(VAGUE_BEGINNINGS) + rng.choice(ends), Moment.LATER, rng) for _ in range(CANDIDATES)]


def _random(scene: ItemScene, rng: random.Random) -> list[str]:
    """Collect good replies to other openings."""
    topics = [topic for topic in TOPICS if topic is not scene.topic]
    candidates = []
    for _ in range(CANDIDATES):
        topic = rng.choice(topics)
        reply = rng.choice(generator.replies_in_log(rng.choice(topic.openers), scene.register))
        text = fill(reply.text, generator.draw_slots(topic, rng))
        candidates.append(say(text, scene.register, reply.intent, is_desk=True, rng=rng))
    return candidates


def _nearest(goal: str, candidates: Sequence[str]) -> str:
    """Return the candidate whose length is nearest in tokens and characters; the first of equals."""
    tokens, characters = len(goal.split()), len(goal)

    def distance(text: str) -> float:
        return abs(len(text.split()) - tokens) + abs(len(text) - characters) / CHARACTERS_PER_TOKEN

    return min(candidates, key=distance)


def _ratings(settings: DemoItemSettings, rng: random.Random) -> list[dict[str, tuple[int, ...]]]:
    """Simulate annotators: the system's quality, the item's difficulty, the reply's luck, their habits, and noise."""
    habits = [rng.gauss(0.0, ANNOTATOR_SPREAD) for _ in range(settings.annotators)]
    rows = []
    for _ in range(settings.items):
        difficulty = rng.gauss(0.0, ITEM_SPREAD)
        row = {}
        for system, quality in QUALITY.items():
            worth = quality - difficulty + rng.gauss(0.0, REPLY_SPREAD)
            opinions = [worth + habit + rng.gauss(0.0, RATING_SPREAD) for habit in habits]
            row[system] = tuple(min(5, max(1, round(opinion))) for opinion in opinions)
        rows.append(row)
    return rows


def _assign_ratings(
    exchanges: Sequence[Exchange], rows: Sequence[dict[str, tuple[int, ...]]], rng: random.Random
) -> list[dict[str, tuple[int, ...]]]:
    """Assign each item one row of ratings, in the shuffling with the least correlation with length.

    The correlation is the worst of four: Pearson's and Spearman's over all replies, with tokens and with
    characters. Neither the lengths nor the ratings change by shuffling, so their standard scores and ranks are
    computed once.
    """
    replies = [exchange.replies[system] for exchange in exchanges for system in QUALITY]
    means = [sum(row[system]) / len(row[system]) for row in rows for system in QUALITY]
    pairs = [
        (_standard(view(lengths)), _standard(view(means)))
        for lengths in ([float(len(reply.split())) for reply in replies], [float(len(reply)) for reply in replies])
        for view in (list, _ranks)
    ]
    best, least = list(range(len(rows))), float("inf")
    for _ in range(_shufflings(len(rows))):
        order = rng.sample(range(len(rows)), len(rows))
        worst = max(abs(_correlation(lengths, ratings, order)) for lengths, ratings in pairs)
        if worst < least:
            best, least = order, worst
    return [rows[source] for source in best]


def _shufflings(items: int) -> int:
    """Return the number of shufflings: many where items are few and chance is large."""
    return max(20, min(300, 60_000 // items))


def _correlation(lengths: Sequence[float], ratings: Sequence[float], order: Sequence[int]) -> float:
    """Multiply standard scores when item i has the ratings of item order[i]."""
    systems = len(QUALITY)
    return sum(
        lengths[place * systems + system] * ratings[source * systems + system]
        for place, source in enumerate(order)
        for system in range(systems)
    )


def _standard(values: Sequence[float]) -> list[float]:
    """Shift and scale to mean 0 and length 1, so that the correlation is a plain product; constants become 0."""
    mean = sum(values) / len(values)
    length = sqrt(sum((value - mean) ** 2 for value in values))
    return [(value - mean) / length if length else 0.0 for value in values]


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank from 1; equal values share the mean of their ranks."""
    positions: dict[float, list[int]] = {}
    for rank, number in enumerate(sorted(values), start=1):
        positions.setdefault(number, []).append(rank)
    return [sum(positions[value]) / len(positions[value]) for value in values]
