"""The page about judges does what it shows, against an endpoint on loopback, and its tables are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from acceptance.examples import ROOT, run, whole
from endpoints import Received, endpoint, openai

from refaug.bots.endpoint.specification import Endpoint
from refaug.extras.judges.language_models import answer_reading, pointwise
from refaug.extras.judges.language_models.bias import Bias
from refaug.metrics.base import Problem

PAGE = ROOT / "docs" / "judge.md"
RATINGS = {
    "On the chair, I think.": 5,
    "Tea would be lovely.": 4,
    "See you!": 4,
    "I like hats.": 2,
    "It is behind the door.": 4,
}


def rating_of(text: str) -> int | None:
    """The rating of a reply, also inside other words; polite phrases are worth a point."""
    rating = next((rating for reply, rating in RATINGS.items() if reply.lower() in text.lower()), None)
    return None if rating is None else min(5, rating + ("to be honest" in text))


def small_model(received: Received) -> dict:
    """What a small model might answer: it refuses to judge a plain yes, and of equal replies it takes the first."""
    if "Reply A:" in received.prompt:
        replies = received.part("Reply A"), received.part("Reply B")
        first, second = map(rating_of, replies)
        content = None
        if first is not None and second is not None:
            is_first = first > second or replies[0] == replies[1]
            content = {"better": "A" if is_first else "B" if second > first else "tie"}
    else:
        rating = rating_of(received.reply)
        content = None if rating is None else {"overall": rating}
        if rating is not None and "warmth" in received.prompt:
            content = {"warmth": rating - 1, "tact": 3 if rating > 3 else 2}
    text = "I'm sorry, but I can't judge that." if content is None else json.dumps(content)
    answer = openai(text, fingerprint="b1234")
    return {**answer, "model": "small-judge-q4", "usage": {"prompt_tokens": 120, "completion_tokens": 6}}


def test_every_example_of_the_page_gives_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with endpoint(small_model) as fake:
        page = tmp_path / "page.md"
        page.write_text(PAGE.read_text("utf-8").replace("127.0.0.1:8000", f"127.0.0.1:{fake.port}"), "utf-8")
        run(whole(page), tmp_path, monkeypatch, capfd)


def rows(marker: str) -> list[list[str]]:
    """The cells of the table below a marker, without its head."""
    text = PAGE.read_text("utf-8").split(f"<!-- {marker} -->\n", 1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_the_page_has_the_fields_of_a_judge_and_their_defaults() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows("fields")}
    own = [field for field in fields(Endpoint) if field.name not in ("name", "dialect")]  # not of its file
    assert list(shown) == [field.name for field in own]
    for field in own:
        if isinstance(field.default, str | int | float):
            assert shown[field.name] == (
                field.default if isinstance(field.default, str) else f"{field.default:g}".replace("1e+06", "1000000")
            )


def test_the_page_has_the_biases_that_are_probed() -> None:
    assert [row[0].strip("`") for row in rows("biases")] == [bias.value for bias in Bias]


def test_the_page_has_every_reason_for_no_score() -> None:
    of_answers = [content.code for content in vars(answer_reading).values() if isinstance(content, Problem)]
    codes = {*of_answers, pointwise._FAILED, *pointwise._CODES.values()}
    assert {row[0].strip("`") for row in rows("problems")} == codes
    assert re.fullmatch("judge_[a-z_]+", "".join(sorted(codes)[:1]))
