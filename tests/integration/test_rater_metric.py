"""The metric `rater` and `refaug agreement rater` as users type them, with a tiny rater of drawn weights."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from integration.conftest import Home, Result
from raters import tiny_model

from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.metrics.signature import Signature
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.rating import Rater, RatingRequest
from refaug.rater.rating_settings import COMBINES, RatingSettings
from refaug.scoring.home.networks import open_rater, rater_places

WORDS = ["apples", "blue", "boats", "do", "fly", "green", "how", "i", "like", "no", "red", "the", "they", "we", "yes"]
TEXTS = sorted({" ".join(random.Random(number).choices(WORDS, k=1 + number % 7)) for number in range(300)})
ONE = ("--threads", "1")
FEW = ("--draws", "50")


@pytest.fixture(scope="module")
def with_raters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two raters, `chat` and `other`."""
    folder = tmp_path_factory.mktemp("with-raters")
    train_sentencepiece(TEXTS, folder / "tiny.model", TokenizerTraining(vocab_size=100, at_most=True))
    tokenizer = open_sentencepiece(folder / "tiny.model")
    raters = rater_places(Settings(home=folder / "home")).versions
    for seed, name in enumerate(("chat", "other"), start=1):
        model = tiny_model(tokenizer.vocab_size, seed=seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.5)  # until it has opinions
        staged = folder / name
        save_rater(staged, model, tokenizer, temperature=2.5, languages=["en"], report={}, details={"logs": {}})
        raters.publish(name, raters.add(name, staged))
    return folder / "home"


@pytest.fixture
def ready(home: Home, with_raters: Path) -> Home:
    shutil.copytree(with_raters, home.path)
    return home


def lines_of(count: int = 12) -> list[dict[str, Any]]:
    """Items with one or two golds, rated replies, and references that people rated."""
    lines = []
    for number in range(count):
        drawn = random.Random(number)
        first, second, *golds = drawn.sample(TEXTS, 3 + number % 2)
        rated = [{"text": first, "ratings": [drawn.randint(1, 5)]}, {"text": second, "weight": drawn.uniform(-1, 1)}]
        lines.append(
            {
                "id": f"i{number}",
                "utterance": drawn.choice(TEXTS),
                "references": [*golds, *rated],
                "replies": {"a": f"{drawn.choice(TEXTS)} indeed", "b": f"well {drawn.choice(TEXTS)}"},
                "ratings": {name: [drawn.randint(1, 5), drawn.randint(1, 5)] for name in ("a", "b")},
            }
        )
    return lines


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return written(tmp_path / "chat-items.jsonl", lines_of())


def expected(rater: Rater, line: dict[str, Any], text: str, combine: str = "first", cal: str = "raw") -> float:
    """Asked for one gold at a time."""
    wanted = RatingSettings(combine=combine, calibrated=cal == "cal")  # type: ignore[arg-type]
    golds = [one for one in line["references"] if isinstance(one, str)]
    asked = [
        RatingRequest(utterance=line["utterance"], golds=(gold,), candidates=(Reference(text=text),)) for gold in golds
    ]
    return sum(one for (one,) in rater.rate(asked, wanted)) / len(golds)


def opened(home: Home, name: str = "chat") -> Rater:
    return open_rater(Settings(home=home.path), name, threads=1)


def done(result: Result) -> Any:
    assert result.code == 0, result.err
    return result.json


# ── refaug score ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("specification", "options", "combine", "cal"),
    [
        ("rater", (), "first", "raw"),
        ("rater:target=reply", (), "first", "raw"),
        ("rater:combine=mean,cal=cal", (), "mean", "cal"),
        ("rater", ("--combine", "max", "--calibrated"), "max", "cal"),
        ("rater:combine=confident,cal=raw", ("--combine", "max", "--calibrated"), "confident", "raw"),
    ],
)
def test_replies_are_scored_by_the_rater_that_is_named(
    ready: Home, items: Path, specification: str, options: tuple[str, ...], combine: str, cal: str
) -> None:
    asked = ("score", items, "-m", specification, "-m", "bleu", "--rater", "chat", *ONE, *FEW, *options, "--json")
    found, bleu = done(ready(*asked))["scores"]
    rater = opened(ready)
    for system in ("a", "b"):
        scores = [one["score"] for one in found["systems"][system]["replies"]]
        values = [expected(rater, line, line["replies"][system], combine, cal) for line in lines_of()]
        assert scores == pytest.approx(values, abs=1e-5)
        assert found["systems"][system]["corpus"] == pytest.approx(sum(values) / len(values), abs=1e-5)
    signature = Signature.parse(found["signature_full"])
    assert dict(signature.settings) == {
        "model": rater.spec,
        "target": "reply",
        "combine": combine,
        "cal": cal,
        "turns": "1",
        "refs": "golds",
    }
    assert "rater:" not in bleu["signature_full"]
    again = ready("score", items, "-m", str(signature.specification()), *ONE, *FEW, "--json")
    assert done(again)["scores"][0]["signature_full"] == found["signature_full"]


def test_a_missing_rater_is_told_of_before_anything_is_read(ready: Home) -> None:
    for command in ("score", "agreement"):
        result = ready(command, "nowhere.jsonl", "-m", "rater", "--json")
        assert "rater" in result.error["message"]
        assert result.error["remedy"] == "refaug artefacts list rater"


def test_without_golds_a_reply_is_rated_by_the_utterance_alone(ready: Home, tmp_path: Path) -> None:
    bare = [{**line, "references": []} for line in lines_of()]
    items = written(tmp_path / "bare.jsonl", [*bare, {"id": "silent", "replies": {"a": "yes", "b": "no"}}])
    flags = ("--rater", "chat", *ONE, "--draws", "0", "--json")
    found = ready("score", items, "-m", "rater:refs=none", *flags).json["scores"][0]
    rater = open_rater(Settings(home=ready.path), "chat", threads=1)
    for system in ("a", "b"):
        *rows, silent = found["systems"][system]["replies"]
        requests = [
            RatingRequest(
                utterance=line["utterance"], golds=("",), candidates=(Reference(text=line["replies"][system]),)
            )
            for line in bare
        ]
        assert [row["score"] for row in rows] == pytest.approx([one for [one] in rater.rate(requests)], abs=1e-5)
        assert (silent["score"], silent["problem"]) == (None, "no_utterance")
    with_golds = written(tmp_path / "golds.jsonl", lines_of())
    again = ready("score", with_golds, "-m", "rater:refs=none", *flags).json["scores"][0]
    assert again["systems"]["a"]["replies"] == found["systems"]["a"]["replies"][:-1]
    refused = ready("score", items, "-m", "rater", *flags)
    assert (refused.code, "rater:refs=none" in refused.err) == (3, True), refused.err


# ── refaug agreement rater ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rater_is_compared_with_people_about_replies_and_references(ready: Home, items: Path) -> None:
    document = done(ready("agreement", "rater", "chat", items, *ONE, *FEW, "--json"))
    assert document["rater"] == opened(ready).spec
    names = [row["name"] for row in document["replies"]["sets"][0]["rows"]]
    assert names == [*(f"rater:combine={one}" for one in COMBINES), "length", "human"]
    meta = done(ready("agreement", items, "-m", "rater:combine=first", "--rater", "chat", *ONE, *FEW, "--json"))
    assert document["replies"]["sets"][0]["rows"][0]["spearman"] == meta["sets"][0]["rows"][0]["spearman"]
    assert document["replies"]["sets"][0]["data"] == meta["sets"][0]["data"]
    (references,) = document["references"]["sets"]
    assert references["counts"] == {"rated": 24, "unusable": 0, "golds_themselves": 0, "used": 24, "items": 12}
    assert [row["name"] for row in references["rows"]] == [*COMBINES, "length"]
    assert document["references"]["mean"] is None


def test_tables_of_an_evaluation_name_rater_data_and_ways(ready: Home, items: Path, tmp_path: Path) -> None:
    more = written(tmp_path / "more.jsonl", [{**line, "id": f"m{line['id']}"} for line in lines_of(20)[12:]])
    asked = ("agreement", "rater", "chat", items, more, "--combine", "mean", "--combine", "first", "--calibrated", *ONE)
    result = ready(*asked, *FEW)
    assert result.code == 0, result.err
    told = result.out.splitlines()
    titles = [line for line in told if "rated re" in line]
    document = done(ready(*asked, *FEW, "--json"))
    data = [one["data"] for part in ("replies", "references") for one in document[part]["sets"]]
    assert titles == [
        f"chat-items, rated replies: 24 fair rows of 12 items, data {data[0]}",
        f"more, rated replies: 16 fair rows of 8 items, data {data[1]}",
        "mean of the sets, rated replies",
        f"chat-items, rated references: 24 of 12 items, data {data[2]}",
        f"more, rated references: 16 of 8 items, data {data[3]}",
        "mean of the sets, rated references",
    ]
    first = told[told.index(titles[0]) + 1 :]
    columns = "combine Spearman 95 % less mean 95 % Holm p Pearson partial Spearman n"
    assert " ".join(first[0].split()) == columns
    assert [line.split()[0] for line in first[1:5]] == ["mean", "first", "length", "human"]
    assert told[-2:] == ["intervals: bootstrap, 50 draws of contexts, seed 1", f"rater {opened(ready).spec}, cal cal"]
    assert "nan" not in result.out


def test_a_bad_item_is_told_of_and_strict_makes_it_an_error(ready: Home, items: Path) -> None:
    items.write_bytes(items.read_bytes() + b'{"id": 1.5}\n')
    asked = ("agreement", "rater", "chat", items, "--combine", "first", *ONE, *FEW)
    assert (ready(*asked).code, ready(*asked, "--strict").code) == (0, 3)
    (problem,) = done(ready(*asked, "--json"))["problems"]
    assert (problem["line"], problem["field"]) == (13, "id")
