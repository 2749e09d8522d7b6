"""The metric `ruber` as users type it, with a tiny index, rater and ruber."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from integration.conftest import Home, Result
from ruber_homes import FILE, TEXTS, home_with_models

from refaug.core.home import Settings
from refaug.metrics.base import References
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.home.networks import open_rater
from refaug.scoring.home.torch_networks import open_ruber

ONE = ("--threads", "1")
FEW = ("--draws", "20")
ROUGE = "ruber:referenced=rouge-1"
ASKED = f"{ROUGE},model=some"
SAMPLED = f"{ASKED},sample=chat"


@pytest.fixture(scope="module")
def with_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return home_with_models(tmp_path_factory.mktemp("with-models"))


@pytest.fixture
def ready(home: Home, with_models: Path) -> Home:
    shutil.copytree(with_models, home.path)
    return home


def lines_of(count: int = 10) -> list[dict[str, Any]]:
    lines = []
    for number in range(count):
        drawn = random.Random(number)
        lines.append(
            {
                "id": f"i{number}",
                "utterance": drawn.choice(TEXTS),
                "references": [drawn.choice(TEXTS)],
                "replies": {"a": drawn.choice(TEXTS), "b": f"well {drawn.choice(TEXTS)}"},
                "ratings": {name: [drawn.randint(1, 5), drawn.randint(1, 5)] for name in ("a", "b")},
            }
        )
    return lines


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "chat-items.jsonl"
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines_of()))
    return path


def done(result: Result) -> Any:
    assert result.code == 0, result.err
    return result.json


def expected(ready: Home, signature: Signature, line: dict[str, Any], reply: str) -> float:
    """By ROUGE-1 and the ruber, a reply at a time, with the ranges that the signature says."""
    rouge = build("rouge-1")
    prepared = rouge.prepare([References((line["references"][0],), (1.0,))])
    given = rouge.statistics([reply], prepared, np.array([0]), np.array([0]))[0, 0]
    said = open_ruber(Settings(home=ready.path), "some", threads=1).score([(line["utterance"], reply)])[0]
    parts = []
    for value, key in ((given, "range-ref"), (said, "range-unref")):
        low, high = (float(one) for one in signature.settings[key].split(".."))
        parts.append(min(1.0, max(0.0, (float(value) - low) / (high - low))))
    return sum(parts) / 2


# ── refaug score ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scores_use_the_ranges_of_the_sample_and_the_signature_has_them(ready: Home, items: Path) -> None:
    asked = ("score", items, "-m", SAMPLED, "-m", "bleu", *ONE, *FEW, "--json")
    found, bleu = done(ready(*asked))["scores"]
    signature = Signature.parse(found["signature_full"])
    for system in ("a", "b"):
        values = [expected(ready, signature, line, line["replies"][system]) for line in lines_of()]
        replies = found["systems"][system]["replies"]
        assert [one["score"] for one in replies] == pytest.approx(values, abs=1e-4)
        assert set(replies[0]["parts"]) >= {"referenced", "unreferenced", "referenced_mapped", "unreferenced_mapped"}
    assert signature.settings["model"] == open_ruber(Settings(home=ready.path), "some", threads=1).spec
    assert signature.details["sample-pairs"] == "5000"
    assert "ruber:" not in bleu["signature_full"]
    # What the signature says is enough: with the ranges given, no index is asked, and the scores are the same.
    shutil.rmtree(ready.path / "indexes")
    asked = ("score", items, "-m", str(signature.specification()), *ONE, *FEW, "--json")
    again = done(ready(*asked))["scores"][0]["systems"]
    for system in ("a", "b"):
        scores, before = ([one["score"] for one in some[system]["replies"]] for some in (again, found["systems"]))
        assert scores == pytest.approx(before, abs=1e-5)


def test_options_of_the_rater_hold_for_this_metric_too(ready: Home, items: Path) -> None:
    asked = ("score", items, "-m", f"{ROUGE},unreferenced=rater,norm=none", "--rater", "some", *ONE, *FEW, "--json")
    found = done(ready(*asked, "--combine", "max", "--calibrated"))["scores"][0]
    unreferenced = Signature.parse(found["signature"]).settings["unreferenced"]
    rater = open_rater(Settings(home=ready.path), "some", threads=1).spec
    assert unreferenced == f"rater;model={rater};target=reply;combine=max;cal=cal;turns=1;refs=golds"
    language = done(ready(*asked, "--language", "ja"))["scores"][0]
    assert "tok=mecab" in Signature.parse(language["signature"]).settings["referenced"]


def test_tables_tell_of_replies_that_are_scored_together(ready: Home, items: Path) -> None:
    vectors = ready.path / FILE
    result = ready("score", items, "-m", f"ruber:model=some,norm=test,vectors={vectors}", *ONE, *FEW, "--percent")
    assert result.code == 0, result.err
    assert "ruber|model:some@" in result.out
    assert "|blend:arithmetic|referenced:pooled;vectors=words#" in result.out
    assert "|norm:test|full:" in result.out
    assert "ruber with norm=test: a score depends on which replies are scored together with it" in result.err


# ── refaug agreement ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_probes_are_scored_too(ready: Home, items: Path) -> None:
    asked = ("-m", SAMPLED, *ONE)
    found = done(ready("agreement", "probe", items, *asked, "--json"))
    rows = {row["name"]: row for row in found["scores"][0]["rows"]}
    signature = Signature.parse(found["scores"][0]["signature_full"])
    golds = [expected(ready, signature, line, line["references"][0]) for line in lines_of()]
    assert rows["gold"]["corpus"] == pytest.approx(sum(golds) / len(golds), abs=1e-4)
    assert rows["empty"]["corpus"] == 0.0
