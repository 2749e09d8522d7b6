"""`refaug agreement hybrid`: figures beside their controls, and lines that hold no conversation."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from integration.conftest import Home
from safeguards import mostly_slow
from scipy import stats
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from refaug.extras.conversations.metrics.components import COMPONENTS
from refaug.extras.conversations.options import ConversationColumns
from refaug.extras.conversations.reading import read_conversations
from refaug.extras.conversations.talks import conversations_in

WORDS = ["tea", "milk", "train", "late", "great", "awful", "haha", "what", "yes", "no"]


def conversation(number: int, *, bots: int = 6) -> dict[str, Any]:
    """A conversation whose rating follows how kind the person's words are, with a bot that makes them so."""
    rng, bot = random.Random(number), number % bots
    turns = []
    for place in range(8):
        kind = ["great"] * bot if place % 2 == 0 else []
        words = [*rng.choices(WORDS, k=5), *rng.sample(kind, rng.randint(0, len(kind)))]
        turns.append({"role": ("participant", "bot")[place % 2], "text": " ".join(words)})
    kindness = sum(turn["text"].split().count("great") for turn in turns[::2])
    return {
        "id": f"c{number}",
        "bot": f"b{bot}",
        "turns": turns,
        "ratings": {"quality": min(100, 5 * kindness + rng.randint(0, 10)), "dull": rng.randint(0, 100)},
        "scale": [0, 100],
        "reversed": ["dull"],
    }


def written(path: Path, talks: list[Any]) -> Path:
    path.write_bytes(b"\n".join(talk if isinstance(talk, bytes) else orjson.dumps(talk) for talk in talks))
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=4))}\n" for word in WORDS[:8]))
    return path


def test_votes_on_replies_stand_alone_beside_the_counts(home: Home, tmp_path: Path, vectors: Path) -> None:
    talks = [conversation(number) for number in range(60)]
    for number, talk in enumerate(talks):
        for place, vote in ((1, 1 if number % 6 > 2 else -1), (3, number % 3 - 1), (5, None)):
            talk["turns"][place]["vote"] = vote
    file = written(tmp_path / "talks.jsonl", talks)
    options = ("--vectors", vectors, "--target", "quality", "--draws", "100", "--json")
    report = home("agreement", "hybrid", file, *options).json
    means = [np.mean([(1 if bot > 2 else -1) + bot % 3 - 1 for _ in range(10)]) / 2 for bot in range(6)]
    rated = [np.mean([talk["ratings"]["quality"] for talk in talks[bot::6]]) for bot in range(6)]
    assert report["alone"]["vote-mean"]["pearson"] == pytest.approx(stats.pearsonr(means, rated).statistic)
    assert report["sets"]["vote-mean"]["columns"] == ["vote-mean"]
    assert "vote-mean" not in report["sets"]["wide"]["columns"]
    assert report["sets"]["wide"]["shuffled_in_folds"]["draws"] == 100
    rows = "conversation,role,text,vote\n" + "".join(
        f"{talk['id']},{turn['role']},{turn['text']},{'' if turn.get('vote') is None else turn['vote']}\n"
        for talk in talks
        for turn in talk["turns"]
    )
    table = tmp_path / "turns.csv"
    table.write_text(rows)
    [first, *_] = conversations_in(
        table, "turns.csv", ConversationColumns.parse(["conversation=conversation"]), bot="b"
    )
    assert first.votes == (-1, -1)
    plain = home("agreement", "hybrid", written(file, [conversation(number) for number in range(60)]), *options).json
    assert "vote-mean" not in plain["alone"]
    for place, vote, message in ((1, 2, "2 is not a vote: -1, 0 or 1"), (0, 1, "a vote on a turn of the person")):
        wrong = conversation(0)
        wrong["turns"][place]["vote"] = vote
        [bad] = read_conversations(written(tmp_path / "wrong.jsonl", [wrong]))
        assert (bad.field, message in bad.message) == (f"turns[{place}].vote", True)


def test_figures_stand_beside_their_controls(home: Home, tmp_path: Path, vectors: Path) -> None:
    talks = [conversation(number) for number in range(120)]
    file = written(tmp_path / "talks.jsonl", talks)
    options = ("--vectors", vectors, "--target", "quality", "--draws", "100")
    report = home("agreement", "hybrid", file, *options, "--json").json

    means = [np.mean([talk["ratings"]["quality"] for talk in talks[bot::6]]) for bot in range(6)]
    assert [row["bot"] for row in report["bots"]] == [f"b{bot}" for bot in range(6)]
    assert [row["mean"] for row in report["bots"]] == pytest.approx(means)
    analyzer = SentimentIntensityAnalyzer()
    kindness = [
        np.mean(
            [
                np.mean([analyzer.polarity_scores(turn["text"])["compound"] for turn in talk["turns"][::2]])
                for talk in talks[bot::6]
            ]
        )
        for bot in range(6)
    ]
    alone = report["alone"]["sentiment"]
    assert alone["pearson"] == pytest.approx(stats.pearsonr(kindness, means).statistic, abs=1e-12)
    assert report["intercept_only"]["pearson"] == pytest.approx(-1.0)
    assert report["sets"]["hybrid"]["columns"] == list(COMPONENTS)
    agreement = report["sets"]["hybrid"]["agreement"]
    assert agreement["common"]["pearson"] > 0.8
    assert report["sets"]["hybrid"]["permuted_bots"]["orders"] == 720
    assert report["signature"].startswith("mh|sent:vader[3.3.2]|sem:mean[words#")
    assert "|icpt:common|target:quality|holdout:bot|play:human|n:120|" in report["signature"]
    again = home("agreement", "hybrid", file, *options, "--json").json
    assert again == report

    text = home("agreement", "hybrid", file, *options).out
    assert "intercept alone  -1.000" in text
    assert f"{agreement['common']['pearson']:.3f}" in text


def test_questions_are_turned_round_and_bots_left_out(home: Home, tmp_path: Path, vectors: Path) -> None:
    talks = [conversation(number) for number in range(120)]
    file = written(tmp_path / "talks.jsonl", talks)
    options = ("--vectors", vectors, "--draws", "100", "--json", "--sentiment", "none")
    report = home("agreement", "hybrid", file, *options, "--without", "b3", "--target", "dull").json
    assert [row["bot"] for row in report["bots"]] == ["b0", "b1", "b2", "b4", "b5"]
    assert report["bots"][0]["mean"] == pytest.approx(np.mean([100 - talk["ratings"]["dull"] for talk in talks[::6]]))
    assert report["missing"]["sentiment"] == 100
    assert "sentiment" not in report["sets"]["hybrid"]["columns"]
    both = home("agreement", "hybrid", file, *options).json["bots"][0]["mean"]
    expected = [(talk["ratings"]["quality"] + 100 - talk["ratings"]["dull"]) / 2 for talk in talks[::6]]
    assert both == pytest.approx(np.mean(expected))


def test_few_bots_have_no_correlation_but_a_reason(home: Home, tmp_path: Path, vectors: Path) -> None:
    file = written(tmp_path / "talks.jsonl", [conversation(number, bots=3) for number in range(60)])
    result = home("agreement", "hybrid", file, "--vectors", vectors, "--draws", "100")
    assert result.code == 0, result.err
    assert "a correlation over 3 bots says nothing" in result.out
    rows = [line.split() for line in result.out.splitlines() if line.startswith(("hybrid  ", "wide  ", "log-turns  "))]
    assert [row[1:7] for row in rows[:3]] == [["–", "–", "–", "–", "–", "no"]] * 3  # r, intervals, mean in folds, p
    assert "[" not in result.out.partition("agreement over bots")[2]
    report = home("agreement", "hybrid", file, "--vectors", vectors, "--draws", "100", "--json").json
    for figures in report["sets"].values():
        for agreement in figures["agreement"].values():
            assert (agreement["bots"], agreement["pearson"]) == (3, None)
            assert agreement["reason"].startswith("a correlation over 3 bots says nothing: ")
        of_bots = ("interval", "shuffled_ratings", "shuffled_in_folds", "permuted_bots")
        assert [figures[name] for name in of_bots] == [None] * 4
        assert figures["is_shown"] is False
        assert figures["condition"] >= 1
    assert [each["interval"] for each in report["against_counts"].values()] == [None, None]


@pytest.mark.parametrize(
    ("change", "message"),
    mostly_slow(
        [
            (
                {"turns": [{"role": "bot", "text": "Hi"}]},
                "turns: a conversation has two turns at least, and this has 1",
            ),
            ({"turns": [{"role": "bot", "text": "Hi"}] * 2}, "turns: the person says nothing"),
            ({"turns": [{"role": "user", "text": "Hi"}, {"role": "bot", "text": " "}]}, "turns: the bot says nothing"),
            ({"turns": [{"role": "cat", "text": "Hi"}] * 2}, "turns[0].role: 'cat' is none of the roles"),
            ({"turns": [{"role": "user", "text": 3}] * 2}, "turns[0].text: 3 is not a text"),
            ({"bot": None}, "bot: is missing"),
            ({"bot": ["x"]}, "bot: ['x'] is not a name"),
            ({"id": "c1"}, "id: 'c1' was used in line 2"),
            ({"ratings": {"quality": 101}}, "ratings.quality: 101 is outside of the scale 0 to 100"),
            ({"ratings": {"quality": "good"}}, "ratings.quality: 'good' is not a number"),
            ({"scale": [5, 1]}, "scale: [5, 1] is not the two ends of a scale"),
            ({"scale": None}, "scale: reversed ratings cannot be turned round"),
            ({"reversed": ["nice"]}, "reversed: no rating is called 'nice'"),
        ],
        quick=[5, 7, 11],
    ),
)
def test_lines_without_a_conversation_are_told_and_left_out(
    home: Home, tmp_path: Path, vectors: Path, change: dict[str, Any], message: str
) -> None:
    talks = [conversation(number) for number in range(60)]
    file = written(tmp_path / "talks.jsonl", [*talks, {**conversation(60), **change}])
    result = home("agreement", "hybrid", file, "--vectors", vectors, "--draws", "100", "--json", "--sentiment", "none")
    assert all(str(fact) in result.err for fact in ("talks.jsonl", message))
    assert result.json["conversations"] == 60


def test_what_cannot_be_evaluated_is_refused(home: Home, tmp_path: Path, vectors: Path) -> None:
    talks = [conversation(number) for number in range(60)]

    def refused(lines: list[Any], *options: str) -> str:
        result = home("agreement", "hybrid", written(tmp_path / "t.jsonl", lines), "--vectors", vectors, *options)
        assert result.code in (2, 3), result.out
        return str(result.err)

    scaled = {**conversation(60), "scale": [0, 1000]}
    assert "ratings on 2 scales: 0 to 100 (c0) and 0 to 1000 (c60)" in refused([*talks, scaled])
    assert "no usable conversation" in refused([b"", b"{"])
    assert "the questions of the file are: dull, quality" in refused(talks, "--target", "fun")
    assert "the bots are b0, b1, b2, b3, b4, b5" in refused(talks, "--without", "b9")
    assert "--sentiment: 'deepmoji' is not vader, none" in refused(talks, "--sentiment", "deepmoji")
    assert "--greedy: 'best' is not one of both, user" in refused(talks, "--greedy", "best")
    japanese = [{"role": "user", "text": "こんにちは、元気ですか"}, {"role": "bot", "text": "はい、元気です"}]
    assert "VADER reads English, and 100% of the letters" in refused([{**talk, "turns": japanese} for talk in talks])
