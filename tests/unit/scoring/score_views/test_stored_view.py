"""Views of stored score documents, against pandas, numpy and brute force on random documents."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import Corrupt, NotFound, Usage
from refaug.scoring.comparison.comparison import ComparisonRequest, compare
from refaug.scoring.score_files.score_document import seal_of
from refaug.scoring.score_files.score_file import ScoreFile, sealed
from refaug.scoring.score_report.report import as_csv, page
from refaug.scoring.score_views.replies import ReplyOrder, ReplyQuery, full_reply, points_json, reply_rows
from refaug.scoring.score_views.score_view import SCORES, ScoreView, open_view, summary_json, write_view

SIGNATURES = (
    "multi-bleu|n:2|smooth:exp|bp:closest|eff:auto|case:lc|tok:word|tokenizer.:unicode 14.0.0|refaug:0.1.0",
    "chrf|nc:6|nw:0|beta:2|case:mixed|refaug:0.1.0",
)
SYSTEMS = ("old", "new", "a,b")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scores = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A sealed document with details; the second metric may lack a system, and has its replies in another order."""
    systems = draw(st.lists(st.sampled_from(SYSTEMS), min_size=1, unique=True))
    ids = draw(st.lists(texts.filter(str.strip), min_size=1, max_size=8, unique=True))
    items = [
        {
            "id": name,
            **draw(st.sampled_from([{}, {"utterance": draw(texts)}, {"turns": [draw(texts), draw(texts)]}])),
            "references": [{"text": draw(texts), "source": "gold"}],
            "replies": {system: draw(texts) for system in systems},
        }
        for name in ids
    ]
    per_metric = []
    for place, signature in enumerate(SIGNATURES):
        named = systems if place == 0 else draw(st.permutations(systems))[: draw(st.integers(1, len(systems)))]
        entry: dict[str, Any] = {"metric": signature.split("|")[0], "signature": signature, "scale": 1.0}
        entry["signature_full"] = signature
        entry["higher_is_better"] = place == 0 or draw(st.booleans())
        entry["systems"] = {
            name: {
                "corpus": draw(scores),
                "replies": [{"id": each, "score": draw(scores)} for each in (ids if place == 0 else ids[::-1])],
            }
            for name in named
        }
        per_metric.append(entry)
    sums = [
        {"columns": ["x"], "systems": {name: [[1.0]] * len(ids) for name in entry["systems"]}} for entry in per_metric
    ]
    details = {"items": items, "sums": sums}
    evidence = {name: {"references": 1, "above_zero": 0, "thin": True} for name in ids}
    return sealed({"scores": per_metric, "items": len(ids), "evidence": evidence, "details": details})


def stored(document: Mapping[str, Any], folder: Path) -> ScoreView:
    write_view(document, folder)
    return open_view(folder, "a")


def frame_of(document: Mapping[str, Any]) -> pd.DataFrame:
    """One row a reply, as the document has them."""
    items = {item["id"]: item for item in document["details"]["items"]}
    first, second = (
        {(name, row["id"]): row["score"] for name, system in entry["systems"].items() for row in system["replies"]}
        for entry in document["scores"]
    )
    rows = [
        {
            "system": name,
            "id": row["id"],
            "reply": items[row["id"]]["replies"][name],
            "utterance": (items[row["id"]].get("turns") or [items[row["id"]].get("utterance", "")])[-1],
            "x": first[name, row["id"]],
            "y": second.get((name, row["id"])),
        }
        for name, system in document["scores"][0]["systems"].items()
        for row in system["replies"]
    ]
    return pd.DataFrame(rows).astype({"x": float, "y": float})


@given(documents())
@settings(max_examples=15, deadline=None)
def test_a_stored_document_is_the_document_and_its_columns_are_its_replies(document: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        view = stored(document, Path(folder))
        assert (Path(folder) / SCORES).read_bytes() == orjson.dumps(document) + b"\n"
        frame = frame_of(document)
        assert [view.system(place) for place in range(len(view))] == list(frame["system"])
        assert list(view.ids) == list(frame["id"])
        assert np.array_equal(view.scores, frame[["x", "y"]].to_numpy().T, equal_nan=True)
        rows = reply_rows(view, range(len(view)), 0, None)
        assert [(row["reply"], row["utterance"]) for row in rows] == list(
            zip(frame["reply"].str[:300], frame["utterance"].str[:300], strict=True)
        )
        assert document["checksum"] == seal_of(document)
        evidence = view.file.document["evidence"]
        assert {name: evidence[name] for name in evidence} == document["evidence"]
        for place in range(len(view)):
            full = full_reply(view, place)
            assert [one["place"] for one in full["others"]] == [
                int(other) for other in np.flatnonzero(frame["id"] == frame["id"][place]) if other != place
            ]
            assert [one["score"] for one in full["scores"]] == [
                None if np.isnan(score) else score for score in frame.loc[place, ["x", "y"]].astype(float)
            ]
        with pytest.raises(NotFound):
            full_reply(view, len(view))


@given(documents(), texts, st.sampled_from(SYSTEMS), st.floats(0, 1), st.booleans(), st.sampled_from(ReplyOrder))
@settings(max_examples=25, deadline=None)
def test_filters_orders_and_searches_are_those_of_pandas(
    document: dict[str, Any], text: str, system: str, low: float, is_descending: bool, order: ReplyOrder
) -> None:
    frame = frame_of(document)
    direction = 1 if document["scores"][1]["higher_is_better"] else -1
    both = frame.dropna(subset=["x", "y"])
    ranks = [both["x"].rank(), (both["y"] * direction).rank()]
    frame["disagreement"] = (ranks[0] - ranks[1]).abs() / max(1, len(both) - 1)
    frame["length"] = frame["reply"].str.len()
    frame["place"] = range(len(frame))
    key = {"score": "x", "other": "y", "item": "id"}.get(order.value, order.value)
    with TemporaryDirectory() as folder:
        view = stored(document, Path(folder))
        query = ReplyQuery(metric=0, other=1, order=order, is_descending=is_descending)
        expected = frame.sort_values(key, ascending=not is_descending, kind="stable", na_position="last")
        assert query.places(view).tolist() == expected["place"].tolist()
        searched = ReplyQuery(search=text, low=low)
        sought = text.casefold()
        passes = [
            sought in f"{row.id}\n{row.reply}\n{row.utterance}".casefold() and row.x >= low
            for row in frame.itertuples()
        ]
        if not text:
            passes = list(frame["x"] >= low)
        assert searched.places(view).tolist() == np.flatnonzero(passes).tolist()
        if system in view.systems:
            of_system = ReplyQuery(system=system, high=low).places(view).tolist()
            assert of_system == np.flatnonzero((frame["system"] == system) & (frame["x"] <= low)).tolist()
        else:
            with refusing(Usage):
                ReplyQuery(system=system).places(view)
        points = points_json(view, 0, 1, None, 1_000)
        assert points["points"] == [[int(row.Index), row.x, row.y] for row in both.itertuples()]
        few = points_json(view, 0, 1, None, 2)
        assert few["total"] == len(both)
        assert all(point in points["points"] for point in few["points"])
        assert len(few["points"]) == min(2, len(both))


@given(documents())
@settings(max_examples=15, deadline=None)
def test_the_histograms_and_the_table_are_those_of_numpy_and_pandas(document: dict[str, Any]) -> None:
    frame = frame_of(document)
    with TemporaryDirectory() as folder:
        view = stored(document, Path(folder))
        for column, metric in zip(("x", "y"), summary_json(view)["metrics"], strict=True):
            shown = metric["histogram"]
            for counted in shown["systems"]:
                own = frame.loc[frame["system"] == counted["system"], column]
                edges = (shown["low"], shown["high"])
                assert counted["counts"] == np.histogram(own.dropna(), bins=shown["bins"], range=edges)[0].tolist()
                assert counted["missing"] == int(own.isna().sum())
            assert all(shown["low"] <= score <= shown["high"] for score in frame[column].dropna())
        in_memory = ScoreFile.of(orjson.loads(orjson.dumps(document)), "a")
        assert as_csv(view.file) == as_csv(in_memory)
        table = pd.read_csv(io.StringIO(as_csv(view.file)), keep_default_na=False)
        replies = table[table["kind"] == "reply"]
        assert len(replies) == sum(
            len(system["replies"]) for entry in document["scores"] for system in entry["systems"].values()
        )


def plain_document(count: int = 300) -> dict[str, Any]:
    """A document of a metric whose sums can be tested, with two systems."""
    drawn = np.random.default_rng(3)
    ids = [f"i{number}" for number in range(count)]
    items = [
        {"id": name, "utterance": "hi", "references": [{"text": "a b"}], "replies": {"old": "a", "new": "a b c"}}
        for name in ids
    ]
    systems, sums = {}, {}
    for name in ("old", "new"):
        numbers = drawn.random(count)
        systems[name] = {
            "corpus": float(numbers.mean()),
            "scored": count,
            "replies": [
                {"id": each, "score": float(number)} for each, number in zip(ids, numbers.tolist(), strict=True)
            ],
        }
        sums[name] = [[float(number), 1.0] for number in numbers]
    entry = {"metric": "chrf", "signature": SIGNATURES[1], "signature_full": SIGNATURES[1], "scale": 1.0}
    return sealed(
        {
            "scores": [{**entry, "corpus_from": "mean", "references": "0" * 12, "systems": systems}],
            "items": count,
            "data": "0" * 12,
            "resampling": {"draws": 200, "seed": 1, "confidence": 0.95, "baseline": "old"},
            "details": {"items": items, "sums": [{"columns": ["x", "n"], "systems": sums}]},
        }
    )


def test_pages_and_comparisons_are_those_of_the_document_in_memory(tmp_path: Path) -> None:
    document = plain_document()
    view, file = stored(document, tmp_path), ScoreFile.of(document, "a")
    assert page(view.file, view.file.settings(view.file.scores[0])) == page(file, file.settings(file.scores[0]))
    request = ComparisonRequest(systems=("old", "new"))
    for first, second in product((view.file, file), repeat=2):
        compared = compare(first, second, request).as_json()
        assert compared["comparable"]
        assert compared["comparisons"] == compare(file, file, request).as_json()["comparisons"]


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    document = plain_document(20)
    for name in ("scores.starts.npy", "scores.places.npy", "scores.ends.npy", "scores.lengths.npy"):
        write_view(document, tmp_path)
        other = tmp_path / "other"
        other.mkdir(exist_ok=True)
        write_view(plain_document(40), other)
        (other / name).replace(tmp_path / name)
        with refusing(Corrupt):
            open_view(tmp_path, "a")
    write_view(document, tmp_path)
    head = tmp_path / "scores.head.json"
    head.write_bytes(head.read_bytes().replace(b'"i1"', b'"i2"'))
    with refusing(Corrupt):
        open_view(tmp_path, "a")
