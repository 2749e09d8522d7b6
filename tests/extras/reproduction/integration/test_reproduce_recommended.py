"""`refaug agreement reproduce recommended`: refused without its encoder; with one from files to figures, twice."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from encoders import TinyEncoder, write_encoder
from integration.conftest import Home
from scipy.stats import spearmanr

from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.core.vectors.encoders import open_encoder
from refaug.extras.reproduction.command import RECOMMENDED_SETS
from refaug.extras.reproduction.recommended import read_set
from refaug.metrics.embeddings import recommended
from refaug.metrics.embeddings.recommended import MetricCalibration
from refaug.rater.rating import RatingRequest
from refaug.scoring.home.networks import open_rater

TEXTS = [
    f"{who} {does} {what}"
    for who, does, what in product(("i", "you", "the dog"), ("like", "drink"), ("tea", "a cat", "the big dog"))
]
QUICK = ("--draws", "20", "--seeds", "2", "--threads", "1", "--memory", "256MiB", "--encoder", "tiny", "--edits", "60")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for seed, log in enumerate(("dailydialog_en", "small_en")):
        random = np.random.default_rng(seed)
        dialogues = [{"id": str(number), "turns": random.choice(TEXTS, 4).tolist()} for number in range(60)]
        write_lines(folder / "logs" / f"{log}.jsonl.gz", dialogues)
    for seed, name in enumerate(RECOMMENDED_SETS):
        random = np.random.default_rng(seed)
        rows = [
            {
                "context_id": number // 3,
                "context": [f"{TEXTS[number // 3]} ?"],
                "references": [] if name in ("fed_turn", "conture") else [TEXTS[number // 3 + 8]],
                "system": ("a", "b", "negative-sample")[number % 3],
                "response": f"{random.choice(TEXTS)}{' .' * int(random.integers(4))}",
                "score": float(random.integers(1, 6)),
            }
            for number in range(30)
        ]
        write_lines(folder / "human" / f"{name}.jsonl.gz", rows)
    return folder


def test_without_the_encoder_nothing_is_begun(home: Home, data: Path, tmp_path: Path) -> None:
    refused = home("agreement", "reproduce", "recommended", "--data", data, "--output", tmp_path, "--json")
    assert refused.code != 0
    assert refused.error["remedy"] == "refaug index encoder add all-minilm-l6-v2"
    assert not home.files("logs")


def test_a_set_that_is_not_there_is_named(home: Home, tmp_path: Path) -> None:
    refused = home("agreement", "reproduce", "recommended", "--data", tmp_path, "--json")
    assert (refused.code, refused.error["code"]) == (3, "not_found")
    assert refused.error["message"] == "the data has no human/dailydialog_gupta.jsonl.gz"


@pytest.mark.slow
def test_figures_are_found_again_from_what_was_kept(
    home: Home, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded())
    calibration = MetricCalibration(
        encoder=open_encoder(encoder).name,
        most_like={"turn": 0.9, "turns": 0.9},
        drawn={"gold+retrieved": (2.4, 0.2), "gold": (1.5, 0.2), "retrieved": (2.6, 0.2)},
        link=(-1.0, 1.0),
        sha256="0" * 64,
    )
    monkeypatch.setattr(recommended, "own_calibration", lambda: calibration)
    assert home("index", "encoder", "add", "tiny", encoder).code == 0

    reports = list[dict[str, Any]]()
    for output in (tmp_path / "once", tmp_path / "again"):
        made = home("agreement", "reproduce", "recommended", "--data", data, "--output", output, *QUICK)
        assert made.code == 0, made.err
        reports.append(orjson.loads((output / "recommended.json").read_bytes()))
    once, again = reports

    assert {key: again[key] for key in once if key not in ("seconds", "command")} == {
        key: once[key] for key in once if key not in ("seconds", "command")
    }
    assert once["sets"].keys() == set(RECOMMENDED_SETS)
    assert list(once["agreement"]) == [
        "encoder and gold",
        "chrF with the gold",
        "refaug-1 without an index",
        "best without retrieval, chosen out of fold",
        "best with retrieval, chosen out of fold",
        "refaug-1",
        "refaug-1, retrieved of another context",
        "refaug-1, drawn with as many words",
        "length of the reply",
    ]
    assert once["agreement"]["length of the reply"]["partial"] is None
    value, low, high = once["lead of retrieval, out of fold"]["best without retrieval, chosen out of fold"]
    means = {name: figures["mean"] for name, figures in once["agreement"].items()}
    best = (means["best with retrieval, chosen out of fold"], means["best without retrieval, chosen out of fold"])
    assert value == pytest.approx(best[0] - best[1], abs=2e-4)
    assert low <= high
    assert list(once["without gold"]["refaug-1"]["groups"]) == ["DailyDialog", "EmpatheticDialogues", "FED", "ConTurE"]
    assert len(once["attacks"]["usr_topicalchat"]["refaug-1"]["attacks"]) == 12
    searched = once["searched constants"]["usr_topicalchat"]
    assert list(searched) == ["refaug-1", "encoder and gold", "part words", "part turn", "part turns", "part retrieved"]
    for constant in searched.values():
        assert constant["reply"]
        assert constant["above it"] == (constant["mean"] >= constant["median-rated system"])


@pytest.mark.slow
def test_raters_are_made_once_and_agree_as_scipy_says(home: Home, data: Path, tmp_path: Path) -> None:
    for name in RECOMMENDED_SETS:
        path = tmp_path / "data" / "human" / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((data / "human" / path.name).read_bytes())
    for seed, log in enumerate(("dailydialog_en", "small_en")):
        random = np.random.default_rng(seed)
        turns = [[f"{first} . {second}" for first, second in random.choice(TEXTS, (4, 2))] for _ in range(200)]
        dialogues = [{"id": str(number), "turns": of_dialogue} for number, of_dialogue in enumerate(turns)]
        write_lines(tmp_path / "data" / "logs" / f"{log}.jsonl.gz", dialogues)
    encoder = write_encoder(tmp_path / "tiny", weights=TinyEncoder.seeded())
    assert home("index", "encoder", "add", "tiny", encoder).code == 0
    command = ("agreement", "reproduce", "raters", "--data", tmp_path / "data", "--output", tmp_path / "out", *QUICK)
    command = (*command, "--preset", "small", "--epochs", "1")
    assert home(*command).code == 0
    figures = orjson.loads((tmp_path / "out" / "raters.json").read_bytes())
    weighing = ("encoder rater", "linear rater")
    assert set(figures["leads"]) == {
        "encoder rater over linear rater",
        "encoder rater with golds over linear rater with golds",
        *(f"{line} with golds over encoder and gold" for line in (*weighing, "dual rater")),
        *(
            f"{line}'s weights over {other}"
            for line in weighing
            for other in ("weights of one", f"{line}'s weights, shuffled", "similarity")
        ),
    }
    assert {line: len(means) for line, means in figures["means by seed"].items()} == {
        **dict.fromkeys(("encoder rater, a network alone", "encoder rater, a network alone with golds"), 5),
        **dict.fromkeys(("dual rater", "dual rater with golds"), 3),
        **dict.fromkeys([f"{line}'s weights, shuffled" for line in weighing], 2),
    }
    alone = figures["agreement"]["encoder rater, a network alone"]["mean"]
    assert alone == pytest.approx(np.mean(figures["means by seed"]["encoder rater, a network alone"]), abs=1e-4)
    rater = open_rater(Settings(home=home.path), "proof-linear", threads=1)
    rated = read_set(tmp_path / "data", "usr_topicalchat")
    requests = [
        RatingRequest(utterance=rated.items[item].turns[-1], golds=(), candidates=(Reference(text=reply),))
        for item, reply in zip(rated.item, rated.replies, strict=True)
    ]
    expected = spearmanr([rating for (rating,) in rater.rate(requests)], rated.people).statistic
    found = figures["agreement"]["linear rater"]["groups"]["Topical-Chat"]
    assert found == pytest.approx(expected, abs=1e-4)
    versions = home.files("raters")
    assert home(*command).code == 0
    assert home.files("raters") == versions
    assert orjson.loads((tmp_path / "out" / "raters.json").read_bytes())["agreement"] == figures["agreement"]
