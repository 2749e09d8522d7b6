"""Judges of known bias: pairs in both orders, the probe that finds each bias, and weights of references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from endpoints import Received, Sent, endpoint, openai, write_judge

FILLER = "to be honest"
LINES = [
    {
        "id": f"d{n}",
        "turns": ["Hello.", f"What about number {n}?"],
        "references": [f"Number {n} is fine with me."],
        "replies": {"new": f"Fine {n}", "old": f"So what {n}" if n % 4 else f"Fine {n}", "late": "" if n else "Hm."},
    }
    for n in range(12)
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def is_pair(received: Received) -> bool:
    return "Reply A:" in received.prompt


def places(received: Received) -> tuple[str, str]:
    return received.part("Reply A"), received.part("Reply B")


def quality(text: str) -> int:
    """A judge without a bias: words that say nothing, and words said twice, count for nothing."""
    return 4 if "ine" in text else 2


def better(first: float, second: float) -> dict:
    return openai(json.dumps({"better": "tie" if first == second else "A" if first > second else "B"}))


def judge_of(rating: Callable[[str], float], place: float = 0.0) -> Callable[[Received], dict]:
    """A judge that rates by this function, and adds so much to what stands in place A."""

    def respond(received: Received) -> dict:
        if is_pair(received):
            first, second = places(received)
            return better(rating(first) + place, rating(second))
        return openai(json.dumps({"overall": max(1, min(5, round(rating(received.reply))))}))

    return respond


FAIR = judge_of(quality)
BIASED = {
    "none": FAIR,
    "position": judge_of(quality, place=3),
    "length": judge_of(lambda text: 1 + len(text) / 20),
    "verbosity": judge_of(lambda text: 3 + (FILLER in text)),
}


# ── probe ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bias", "biased"),
    [
        ("none", set()),
        ("position", {"position"}),
        ("length", {"length", "verbosity"}),  # phrases that say nothing are long, too
        ("verbosity", {"verbosity"}),
    ],
)
def test_the_probe_finds_the_bias_of_a_judge(home, items: Path, bias: str, biased: set[str]) -> None:
    with endpoint(BIASED[bias]) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "probe", "local", items, "--json")
    assert result.code == 0, result.err
    findings = {finding["bias"]: finding for finding in result.json["findings"]}
    assert {name for name, finding in findings.items() if finding["biased"]} == biased
    assert all(finding["items"] == 12 and finding["unusable"] == 0 for finding in findings.values())
    if bias == "position":
        assert findings["position"]["effect"] == 1.0
    if bias == "verbosity":
        assert (findings["verbosity"]["effect"], findings["length"]["effect"]) == (0.25, 0.0)
        assert findings["position"]["effect"] == 0.0


def test_the_probe_counts_what_a_judge_does_not_answer(home, items: Path) -> None:
    def respond(received: Received) -> dict:
        return openai("no") if "number 3?" in received.prompt else FAIR(received)

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "probe", "local", items, "--base", "new", "--most", 6, "--json")
    assert [(finding["items"], finding["unusable"]) for finding in result.json["findings"]] == [(5, 1)] * 3
    with endpoint(FAIR) as fake:
        write_judge(home.path, fake.url)
        assert "verbosity" in home("judge", "probe", "local", items, "--most", 2).out
        missing = home("judge", "probe", "local", items, "--base", "gone", "--json")
    assert (missing.code, "replies of gone" in missing.error["message"]) == (3, True)


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_are_asked_in_both_orders(home, items: Path) -> None:
    with endpoint(FAIR) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "compare", "local", items, "--systems", "new,old", "--json")
        text = home("judge", "compare", "local", items, "--systems", "old,new").out
    assert result.json["verdicts"] == {"first": 9, "second": 0, "tie": 3, "order": 0}  # every fourth reply is equal
    assert result.json["share"] == pytest.approx((9 + 1.5) / 12)
    assert result.json["first_place"] == 0.5
    shown = {places(received) for received in fake.received if is_pair(received)}
    assert len(fake.received) == 18
    assert all((second, first) in shown for first, second in shown)
    assert "old wins 0.1250" in text
    assert result.json["signature"].startswith("judge-pairs|rubric:overall#")
    assert "answers:not reproducible" in result.json["signature"]


def test_a_budget_that_ends_leaves_no_pair_with_one_order(home, items: Path) -> None:
    with endpoint(FAIR) as fake:
        write_judge(home.path, fake.url, budget={"tokens": 1_000})
        result = home("judge", "compare", "local", items, "--systems", "new,old", "--json")
    assert 2 < len(fake.received) < 18
    assert result.json["verdicts"] == {"first": len(fake.received) // 2, "second": 0, "tie": 3, "order": 0}


def test_a_verdict_that_depends_on_the_order_is_half_a_win(home, items: Path) -> None:
    with endpoint(BIASED["position"]) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "compare", "local", items, "--systems", "new,old", "--json")
    assert result.json["verdicts"] == {"first": 0, "second": 0, "tie": 3, "order": 9}
    assert (result.json["share"], result.json["first_place"]) == (0.5, 1.0)


def test_empty_replies_lose_unasked_and_failures_have_no_verdict(home, items: Path) -> None:
    def respond(received: Received) -> dict | Sent:
        return Sent(status=400) if "number 0?" in received.prompt else FAIR(received)

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "compare", "local", items, "--systems", "late,new", "--json")
    assert result.json["verdicts"] == {"first": 0, "second": 11, "tie": 0, "order": 0}
    assert result.json["problems"] == {"judge_failed": 1}
    assert len(fake.received) == 2


@pytest.mark.parametrize(("systems", "code"), [("new", 2), ("new,new", 2), ("new,", 2), ("new,gone", 3)])
def test_two_systems_are_needed(home, items: Path, systems: str, code: int) -> None:
    write_judge(home.path, "http://127.0.0.1:1/v1")
    assert home("judge", "compare", "local", items, "--systems", systems, "--json").code == code


# ── weights ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_judge_weighs_references_that_a_set_stores(home, tmp_path: Path) -> None:
    retrieved = [
        {"text": text, "source": "retrieved", "weight": 1.0, "similarity": 0.9, "utterance": "What now?"}
        for text in ("Fine by me.", "Go away.", "Refuse this.")
    ]
    line = {
        "id": "d1",
        "utterance": "What about now?",
        "references": ["Now is fine.", *retrieved],
        "replies": {"a": "Fine by me."},
        "provenance": "k:3|mode:bm25-utterance|gold:one|parrot:off|weights:one|index:chat@1#abc",
    }
    path = tmp_path / "refs.jsonl"
    path.write_text(json.dumps(line))
    ratings = {"Fine by me.": 5, "Go away.": 2}

    def respond(received: Received) -> dict:
        rating = ratings.get(received.reply)
        return openai("I'm sorry, no." if rating is None else json.dumps({"overall": rating}))

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "weigh", "local", path)
    assert result.code == 0, result.err
    weighed = json.loads(result.out)
    assert [(reference["text"], reference.get("weight")) for reference in weighed["references"][1:]] == [
        ("Fine by me.", 1.0), ("Go away.", -0.5),
    ]  # fmt: skip
    assert "1 reference without a rating left out" in result.err
    out = tmp_path / "weighed.jsonl"
    out.write_text(result.out)
    frozen = home("sets", "freeze", out, "--purpose", "test", "--json")
    assert frozen.code == 0, frozen.err
    scores = home("sets", "score", frozen.json["id"], out, "-m", "upsilon-bleu", "--draws", 0, "--json")
    assert scores.code == 0, scores.err
    assert scores.json["scores"][0]["systems"]["a"]["mean"] == 1.0
    signature = scores.json["scores"][0]["signature"]
    assert "|weighed-by:judge local" in signature
    assert ", llm small, rubric overall#" in signature
    assert "not reproducible" in signature
