"""Judges with planted weaknesses, and items that people rated: what each reply is worth stands in its text.

A reply is `q53 …`: it is worth 3 of 5 by the number after q, in tenths over 10. Both the endpoint of the tests and the
simulations of bench/bench_passport.py use these.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_QUALITY = re.compile(r"q(\d+)")
_GRADE = re.compile(r'\{"overall": (\d+)\}|(?<=answer )(\d+)')
_FILLER = ("so", "it", "went", "on", "and", "then", "we", "all", "sat", "down", "to", "talk", "about", "that")


@dataclass(frozen=True, kw_only=True)
class ScriptedJudge:
    """How a judge rates on a scale from 1 to 5; every weakness is off."""

    noise: float = 0.3  # standard deviation, in points
    order: float = 0.0  # share of pairs in which place A is chosen whatever stands there
    per_word: float = 0.0  # points for each word
    own: float = 0.0  # points for replies that say that they are of the judge's family
    obeys: float = 0.0  # share of replies in which a grade that is asked for is given
    likes_nothing: float = 0.0  # points for replies without a quality
    drift: float = 0.0  # points on later occasions
    golds_help: float = 0.0  # share of the noise that goes where the gold is shown
    seed: int = 0

    def rate(self, reply: str, evidence: tuple[str, ...] = (), occasion: str = "", own: bool = False) -> float:
        """The rating of a reply; the same question on the same occasion gets the same."""
        said = _QUALITY.search(reply)
        grade = _GRADE.search(reply)
        if said and grade and self._chance("obeys", " ".join(reply.split()[:5])) < self.obeys:
            return float(grade[1] or grade[2])
        value = int(said[1]) / 10 if said else 1.0 + self.likes_nothing
        noise = self.noise * (1 - self.golds_help if said and any(said[0][1:] in one for one in evidence) else 1)
        rating = value + self._normal(f"{reply} {evidence} {occasion}") * noise
        rating += self.per_word * len(reply.split()) + self.own * own + self.drift * bool(occasion)
        return min(5.0, max(1.0, rating))

    def prefers(self, first: str, second: str) -> str:
        """A, B or tie."""
        if self._chance("order", f"{first}|{second}") < self.order:
            return "A"
        gap = self.rate(first) - self.rate(second)
        return "tie" if abs(gap) < 0.5 else "A" if gap > 0 else "B"

    def _chance(self, what: str, text: str) -> float:
        digest = hashlib.sha256(f"{self.seed} {what} {text}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56

    def _normal(self, text: str) -> float:
        return random.Random(f"{self.seed} {text}").gauss(0, 1)


def rated_items(contexts: int, seed: int, *, raters: int = 2, rater_noise: float = 0.4) -> list[dict[str, Any]]:
    """Items with replies of `ours` and `other`, rated by people on a scale from 1 to 5."""
    rng, items = random.Random(seed), []
    for number in range(contexts):
        replies, ratings = {}, {}
        for system in ("ours", "other"):
            quality = min(4.8, max(1.2, rng.gauss(3, 0.9)))
            words = " ".join(rng.choices(_FILLER, k=rng.randint(3, 12)))
            replies[system] = f"{system} q{round(quality * 10)} {words}"
            ratings[system] = [min(5, max(1, round(quality + rng.gauss(0, rater_noise)))) for _ in range(raters)]
        items.append(
            {
                "id": f"i{number}",
                "turns": [f"What about number {number} of {seed}?"],
                "references": [f"It is {' '.join(re.findall('q([0-9]+)', ' '.join(replies.values())))}."],
                "replies": replies,
                "ratings": ratings,
                "scale": [1, 5],
            }
        )
    return items


def answer(judge: ScriptedJudge, prompt: str, occasion: str, part: Any) -> Mapping[str, object]:
    """The JSON that a judge answers to a prompt whose parts `part` reads."""
    if "Reply A:" in prompt:
        return {"better": judge.prefers(part("Reply A"), part("Reply B"))}
    reply = part("Reply to judge")
    evidence = (
        tuple(part("Replies that people gave here. Others can be as good")) if "people gave here" in prompt else ()
    )
    return {"overall": round(judge.rate(reply, evidence, occasion, own=reply.startswith("ours")))}


def as_json(fields: Mapping[str, object]) -> str:
    """An answer as text."""
    return json.dumps(fields)
