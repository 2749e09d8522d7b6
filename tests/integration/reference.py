"""Small logs whose outcome is known beforehand, and ingest once more in plain Python: what the real one is held to."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

WORDS = ["tea", "rain", "bus", "late", "cold", "shop", "film", "dog", "walk", "soup", "lamp", "sofa", "train", "song"]
SPEAKERS = ["ann", "bob", "cem", "dora"]


@dataclass(frozen=True)
class Text:
    """A message as written, as it should be kept (None: dropped), and why it should be dropped."""

    raw: str
    kept: str | None
    reason: str | None = None


def words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(2, 7)))


def text(rng: random.Random) -> Text:
    """Two in three are as they should be; of the others the outcome is written down here, rule by rule."""
    some = words(rng)
    return rng.choice(
        [
            *[Text(some, some)] * 12,
            Text(f"  {some}\t{some} ", f"{some} {some}"),
            Text(f"{some} https://example.org/a?b=1 {some}", f"{some} <url> {some}"),
            Text(f"{some} &amp; {some}", f"{some} & {some}"),
            Text("[deleted]", None, "deleted"),
            Text("   ", None, "empty"),
            Text("x" * 2_001, None, "too-long"),
            Text(f"{some}. I am a bot, beep boop", None, "bots"),
        ]
    )


@dataclass
class Outcome:
    """What an ingest should come to."""

    pairs: list[dict[str, object]] = field(default_factory=list)
    dropped: list[tuple[str, int, str, str, str]] = field(
        default_factory=list
    )  # file, line, reason, dialogue, position
    turns: int = 0

    @property
    def reasons(self) -> Counter[str]:
        return Counter(f"dropped:{reason}" for _, _, reason, _, _ in self.dropped)


def pair(dialogue, position, one, other, *, speakers=(None, None), time=None, tags=()):
    moment = None if time is None else datetime.fromtimestamp(time, UTC)
    return {
        "dialogue": dialogue,
        "position": str(position),
        "utterance": one,
        "response": other,
        "utterance_speaker": speakers[0],
        "response_speaker": speakers[1],
        "time": moment,
        "tags": tuple(tags),
    }


def dialogue_log(seed: int, count: int, *, prefix: str = "d", file: str = "log.jsonl"):
    """JSONL of dialogues as bytes, and what should come of it."""
    rng, lines, outcome = random.Random(seed), [], Outcome()
    for number in range(count):
        turns = [
            (text(rng), rng.choice(SPEAKERS), 1_600_000_000 + rng.randrange(10**6)) for _ in range(rng.randint(1, 6))
        ]
        identity, tags = f"{prefix}{number}", ["home"] if number % 3 else []
        row = {
            "id": identity,
            "tags": tags,
            "turns": [{"text": t.raw, "speaker": speaker, "time": time} for t, speaker, time in turns],
        }
        lines.append(orjson.dumps(row))
        add_dialogue(outcome, identity, turns, tags=tags, file=file, line=len(lines))
    return b"\n".join(lines) + b"\n", outcome


def add_dialogue(outcome: Outcome, identity, turns, *, tags, file, line, blocked=()):
    before = None
    for position, (said, speaker, time) in enumerate(turns):
        outcome.turns += 1
        kept, reason = (None, "blocked-speaker") if speaker in blocked else (said.kept, said.reason)
        if kept is None:
            outcome.dropped.append((file, line, reason, identity, str(position)))
        elif before is not None:
            speakers = (before[1], speaker)
            outcome.pairs.append(pair(identity, position, before[0], kept, speakers=speakers, time=time, tags=tags))
        before = None if kept is None else (kept, speaker)


def stored(log) -> list[dict[str, object]]:
    """The pairs of a stored log in the shape of `pair`, in stored order."""
    names = ("dialogue", "position", "utterance", "response", "utterance_speaker", "response_speaker", "time", "tags")
    return [{name: getattr(found, name) for name in names} for found in log.pairs()]


def comparable(words: str) -> str:
    """Normalisation, as far as the texts made here need it."""
    return " ".join("".join(c if c.isalnum() or c in "<>&" else " " for c in words.lower()).split())


def totals(pairs) -> dict[str, int]:
    keys = [(comparable(p["utterance"]), comparable(p["response"])) for p in pairs]
    return {
        "pairs": len(pairs),
        "dialogues": len({p["dialogue"] for p in pairs}),
        "distinct_pairs": len(set(keys)),
        "distinct_utterances": len({utterance for utterance, _ in keys}),
    }


# ── message trees ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Message:
    """A message of a tree; `kept` None is one that cleaning drops."""

    id: str
    parent: str | None
    raw: str
    kept: str | None
    root: str | None = None

    @property
    def line(self) -> bytes:
        return orjson.dumps({"id": self.id, "parent": self.parent, "root": self.root, "text": self.raw})


def message(identity, parent=None, *, kept=True, root=None) -> Message:
    said = f"message {identity} speaking"
    return Message(identity, parent, said if kept else "[deleted]", said if kept else None, root)


def join(messages):
    """Pairs, in the order of roots and then of messages; counts; and what is left out, with the reason."""
    first: dict[str, int] = {}
    for number, one in enumerate(messages):
        first.setdefault(one.id, number)
    kept = [number for number, one in enumerate(messages) if first[one.id] == number]
    parent = {number: first.get(messages[number].parent) for number in kept}
    root: dict[int, int | None] = {}
    for number in kept:
        path, at = [], number
        while at not in root and at not in path:
            path.append(at)
            if parent[at] is None:
                root[at] = at
                break
            at = parent[at]
        found = root.get(at)  # None where the path came back to itself
        for step in path:
            root.setdefault(step, found)
    replies = [number for number in kept if root[number] is not None and parent[number] is not None]
    orphans = [n for n in kept if parent[n] is None and messages[n].parent is not None]
    cycles = [n for n in kept if root[n] is None]
    pairs = []
    for number in sorted(replies, key=lambda n: (root[n], n)):
        one, answered, begun = messages[number], messages[parent[number]], messages[root[number]]
        if one.kept is not None and answered.kept is not None:
            pairs.append(pair(begun.root or begun.id, one.id, answered.kept, one.kept))
    counts = {
        "messages": len(messages),
        "roots": sum(parent[n] is None for n in kept),
        "orphans": len(orphans),
        "in_cycles": len(cycles),
        "duplicate_ids": len(messages) - len(kept),
        "replies": len(replies),
    }
    out = {n: "duplicate-id" for n in range(len(messages)) if n not in root}
    out |= dict.fromkeys(cycles, "cycle") | dict.fromkeys(orphans, "orphan")
    return pairs, counts, [(messages[n].id, out[n]) for n in sorted(out)]
