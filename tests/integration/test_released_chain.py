"""The preset tsuta20 beside the code that Tsuta et al. (2020) released: references, ratings and scores.

`bench/released_chain.py` ran their scripts on texts, word vectors and a rater of ours, and wrote the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from indexes import add_to_log, home_of
from integration.conftest import Home
from plain_search import RawPair

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.text.normalisation import normalise
from refaug.core.text.sentencepiece_tokenizer import open_sentencepiece
from refaug.rater.nn.checkpoint import save_rater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import RaterConfig

FIGURES = Path(__file__).parents[1] / "released_chain.npz"
SYSTEMS = ("human-like", "decent", "generic")
LOGS = {"chain": "chain", "line-ends": "line-ends", "crowded": "crowded"}
ONE = ("--threads", "1")
PRESET = ("--preset", "tsuta20")
UNKNOWN = "qqq"  # a word without a vector
RATING = 1e-6
SCORE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Released:
    """What the scripts computed, and from what."""

    log: list[tuple[str, str]]
    crowded_log: list[tuple[str, str]]
    items: list[dict[str, Any]]
    figures: Mapping[str, Any]

    def retrieved(self, run: str) -> list[list[tuple[str, str]]]:
        """The retrieved lines of each item, best first."""
        log = self.crowded_log if run == "crowded" else self.log
        return [[log[line] for line in lines] for lines in self.figures[f"{run}.retrieved"].tolist()]


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    with np.load(FIGURES, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def released(figures: dict[str, Any]) -> Released:
    material = orjson.loads(figures["material"].tobytes())
    logs = {name: [(utterance, response) for utterance, response in material[name]] for name in ("log", "crowded_log")}
    return Released(**logs, items=material["items"], figures=figures)


@pytest.fixture(scope="module")
def built_home(released: Released, figures: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the rater and an index of the preset for each run."""
    folder = tmp_path_factory.mktemp("released")
    material = orjson.loads(figures["material"].tobytes())
    vectors = dict(zip(material["vectors"], figures["vectors"].tolist(), strict=True))
    places = home_of(folder / "home", pairs_of("chain", released.log), vectors)
    line_ends = [(f"{utterance.rpartition(' ')[0]} {UNKNOWN}", response) for utterance, response in released.log]
    add_to_log(places, "line-ends", pairs_of("line-ends", line_ends))
    add_to_log(places, "crowded", pairs_of("crowded", released.crowded_log))
    save_drawn_rater(folder, material["config"], figures)
    for log in LOGS:
        command = ("index", "build", log, "--vectors", "glove", "--tokenizer", "word", "--factory", "Flat", *PRESET)
        assert main(["--home", str(folder / "home"), "--quiet", *command, "--check-queries", "0", *ONE]) == 0
    return folder / "home"


def pairs_of(log: str, lines: Iterable[tuple[str, str]]) -> list[RawPair]:
    return [RawPair(log, f"d{number}", "1", *line) for number, line in enumerate(lines)]


def save_drawn_rater(folder: Path, config: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Publish the rater as `drawn`."""
    (folder / "pieces.model").write_bytes(figures["pieces"].tobytes())
    model = BiGRURater(RaterConfig(**config))
    weights = {name.removeprefix("rater."): row for name, row in figures.items() if name.startswith("rater.")}
    model.load_state_dict({name: torch.from_numpy(row) for name, row in weights.items()})
    tokenizer = open_sentencepiece(folder / "pieces.model")
    save_rater(folder / "drawn", model, tokenizer, temperature=1.0, languages=["en"], report={}, details={})
    raters = artefact_stores(Settings(home=folder / "home"))["rater"]
    raters.publish("drawn", raters.add("drawn", folder / "drawn"))


@pytest.fixture
def home(built_home: Path, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(built_home, capsys)


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def rows_with_references(home: Home, items: Path, index: str) -> list[dict[str, Any]]:
    refs = home("sets", "references", items, "--index", index, "--rater", "drawn", *PRESET, *ONE)
    assert refs.code == 0, refs.err
    return [orjson.loads(line) for line in refs.out.splitlines()]


def of_source(row: Mapping[str, Any], source: str) -> list[dict[str, Any]]:
    return [reference for reference in row["references"] if reference["source"] == source]


def in_released_order(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parrot, the gold, and the retrieved references in their order."""
    return [reference for source in ("parrot", "gold", "retrieved") for reference in of_source(row, source)]


def scores_of(home: Home, items: Path) -> np.ndarray:
    """Scores of single replies (systems, items), with the rated references that the items have."""
    result = home("score", items, *PRESET, *ONE, "--draws", "0", "--json")
    assert result.code == 0, result.err
    (score,) = result.json["scores"]
    assert "|preset:tsuta20|k:13|" in score["signature"]
    return np.array([[reply["score"] for reply in score["systems"][system]["replies"]] for system in SYSTEMS])


@pytest.mark.parametrize("run", ["chain", "line-ends"])
def test_200_items_have_the_references_ratings_and_scores_of_the_released_code(
    home: Home, released: Released, run: str, tmp_path: Path
) -> None:
    rows = rows_with_references(home, written(tmp_path / "items.jsonl", released.items), run)

    responses = [[reference["text"] for reference in of_source(row, "retrieved")] for row in rows]
    assert responses == [[response for _, response in lines] for lines in released.retrieved(run)]
    assert len(rows) == 200
    assert {len(texts) for texts in responses} == {13}

    ratings = np.array([[reference["rating"] for reference in in_released_order(row)] for row in rows])
    expected = released.figures[f"{run}.ratings"]
    np.testing.assert_allclose(ratings, expected, rtol=0, atol=RATING)
    assert 0 < (expected < 0).mean() < 0.5

    with_their_ratings = [with_weights(row, weights) for row, weights in zip(rows, expected.tolist(), strict=True)]
    scores = scores_of(home, written(tmp_path / "theirs.jsonl", with_their_ratings))
    np.testing.assert_allclose(scores, released.figures[f"{run}.scores"], rtol=0, atol=SCORE)
    assert 0.5 < (scores > 0).mean() < 1

    of_whole_chain = scores_of(home, written(tmp_path / "refs.jsonl", rows))
    np.testing.assert_allclose(of_whole_chain, released.figures[f"{run}.scores"], rtol=0, atol=10 * RATING)


def with_weights(row: Mapping[str, Any], weights: Sequence[float]) -> dict[str, Any]:
    """The item with these ratings of its references, in the order of the released code."""
    references = in_released_order(row)
    weighted = [
        {**reference, "rating": weight, "weight": weight} for reference, weight in zip(references, weights, strict=True)
    ]
    golds_first = sorted(weighted, key=lambda reference: reference["source"] != "gold")
    return {**row, "references": golds_first}


def test_ties_repeated_lines_and_own_texts_are_the_only_differences(
    home: Home, released: Released, tmp_path: Path
) -> None:
    """The released code takes every line, and equal similarities in the order that its sort leaves them in."""
    retrieved = released.retrieved("crowded")
    items = released.items[: len(retrieved)]
    rows = rows_with_references(home, written(tmp_path / "items.jsonl", items), "crowded")
    responses = [[reference["text"] for reference in of_source(row, "retrieved")] for row in rows]

    assert responses == [by_our_rules(lines, row) for lines, row in zip(retrieved, items, strict=True)]
    as_released = [[response for _, response in lines[:13]] for lines in retrieved]
    assert all(ours != theirs for ours, theirs in zip(responses, as_released, strict=True))


def by_our_rules(lines: Sequence[tuple[str, str]], row: Mapping[str, Any]) -> list[str]:
    """The first 13 texts: without those of the item, by hash where utterances have equal words, each text once."""
    own = {normalise(text) for text in (row["utterance"], *row["references"])}
    tied = dict[tuple[str, ...], list[str]]()
    for utterance, response in lines:
        tied.setdefault(tuple(sorted(utterance.split())), []).append(response)
    ordered = [text for texts in tied.values() for text in sorted(texts, key=_hash)]
    distinct = {normalise(text): text for text in reversed(ordered) if normalise(text) not in own}
    return [text for text in dict.fromkeys(ordered) if distinct.get(normalise(text)) == text][:13]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
