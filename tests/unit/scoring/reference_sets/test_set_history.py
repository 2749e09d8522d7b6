"""The history of a frozen set: append-only, whole after kills, the same in another home; and its leaderboard."""

from __future__ import annotations

import base64
import json
import random
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refusing
from set_items import MAKING, item_of, words

from refaug.core.artefacts.transfer import open_export
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import with_checksum
from refaug.core.progress import Silent
from refaug.metrics.specification import build
from refaug.scoring.comparison.leaderboard import leaderboards
from refaug.scoring.evaluate import evaluate
from refaug.scoring.reference_sets.set_history import SetHistory, score_document, unpack
from refaug.scoring.reference_sets.set_store import ReferenceSets
from refaug.scoring.reference_sets.set_transfer import export_set, import_set
from refaug.scoring.scores import Evaluation
from refaug.scoring.settings import ScoreSettings

COUNT = 20
SETTINGS = ScoreSettings(draws=100, seed=2)


def scored(seed: str, metrics: Sequence[str] = ("upsilon-bleu", "multi-bleu"), system: str = "model") -> Evaluation:
    rng = random.Random(seed)
    test_items = [item_of(number) for number in range(1, COUNT + 1)]
    test_items = [replace(each, replies={system: words(rng)}) for each in test_items]
    test_items[3] = replace(test_items[3], replies={})
    return evaluate(test_items, [build(name) for name in metrics], SETTINGS)


@pytest.fixture
def history(tmp_path: Path) -> SetHistory:
    frozen = ReferenceSets(tmp_path / "sets").freeze([item_of(number) for number in range(1, COUNT + 1)], MAKING)
    return SetHistory(frozen.set)


def test_an_entry_reads_back_as_the_scores_with_their_sums(history: SetHistory) -> None:
    evaluation = scored("a")
    history.record("run 1", evaluation)
    (entry,) = history.read().entries
    assert (entry["name"], entry["data"], entry["replies"]) == ("run 1", evaluation.data, evaluation.replies)
    document = score_document(entry)
    for scores, written, sums in zip(evaluation.scores, document["scores"], document["details"]["sums"], strict=True):
        system = scores.systems["model"]
        assert [reply["score"] for reply in written["systems"]["model"]["replies"]] == list(system.each_score())
        rows = [[np.nan] * len(sums["columns"]) if row is None else row for row in sums["systems"]["model"]]
        assert np.array_equal(np.array(rows), system.statistics, equal_nan=True)
        assert written["systems"]["model"]["corpus"] == system.corpus


def test_what_a_killed_writer_left_is_skipped_and_the_next_entry_is_whole(history: SetHistory) -> None:
    history.record("first", scored("a"))
    whole = history.path.read_bytes()
    history.record("second", scored("b"))
    both = history.path.read_bytes()
    assert both.startswith(whole)
    for end in (len(whole) + 1, len(whole) + 1000, len(both) - 2):
        history.path.write_bytes(both[:end])
        assert [entry["name"] for entry in history.read().entries] == ["first"]
        assert history.read().damaged == 1
        history.record("third", scored("c"))
        entries = history.read()
        assert ([entry["name"] for entry in entries.entries], entries.damaged) == (["first", "third"], 1)
    history.path.write_bytes(both[:-1])  # all of the line but its end: the next one does not join it
    history.record("third", scored("c"))
    assert [entry["name"] for entry in history.read().entries] == ["first", "second", "third"]


def test_a_changed_entry_is_skipped(history: SetHistory) -> None:
    history.record("first", scored("a"))
    history.record("second", scored("b"))
    lines = history.path.read_bytes().split(b"\n")
    changed = json.loads(lines[0])
    changed["scores"][0]["systems"]["model"]["corpus"] = 1.0
    history.path.write_bytes(b"\n".join([json.dumps(changed).encode(), *lines[1:]]))
    entries = history.read()
    assert ([entry["name"] for entry in entries.entries], entries.damaged) == (["second"], 1)


def forged(history: SetHistory, **changes: object) -> bytes:
    """An entry with other fields and a checksum that fits them, as anybody can write it."""
    entry = {**json.loads(history.path.read_bytes().splitlines()[0]), **changes}
    return json.dumps(with_checksum({name: field for name, field in entry.items() if name != "checksum"})).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"items": 10**12},
        {"items": "20"},
        {"name": "a\x1b[31m"},
        {"name": 7},
        {"at": None},
        {"resampling": []},
        {"scores": []},
        {"scores": [{"metric": "bleu"}]},
        {"scores": [None]},
    ],
)
def test_an_entry_of_another_form_is_damaged_whatever_its_checksum(
    history: SetHistory, changes: dict[str, object]
) -> None:
    history.record("run 1", scored("a"))
    line = forged(history, **changes)
    with refusing(BadInput):
        history.merge([forged(history, name="run 2"), line])
    with history.path.open("ab") as file:
        file.write(line + b"\n")
    found = history.read()
    assert ([entry["name"] for entry in found.entries], found.damaged) == (["run 1"], 1)
    assert [row.run for row in leaderboards(found.entries, SETTINGS)[0].rows] == ["run 1"]


@pytest.mark.parametrize(
    ("field", "content"),
    [
        ("corpus", "1"),
        ("interval", [0.1]),
        ("scored", None),
        ("packed_scores", 3),
    ],
)
def test_figures_of_another_form_are_damaged_whatever_the_checksum(
    history: SetHistory, field: str, content: object
) -> None:
    history.record("run 1", scored("a", ("multi-bleu",)))
    scores = json.loads(history.path.read_bytes())["scores"]
    scores[0]["systems"]["model"][field] = content
    history.path.write_bytes(forged(history, scores=scores) + b"\n")
    assert (history.read().entries, history.read().damaged) == ((), 1)


def test_an_entry_that_lost_its_checksum_is_damaged(history: SetHistory) -> None:
    history.record("run 1", scored("a"))
    entry = json.loads(history.path.read_bytes())
    del entry["checksum"]
    entry["scores"][0]["systems"]["model"]["corpus"] = 0.99
    history.path.write_text(json.dumps(entry) + "\n")
    assert (history.read().entries, history.read().damaged) == ((), 1)


def test_concurrent_writers_lose_nothing(history: SetHistory) -> None:
    evaluation = scored("a", ["multi-bleu"])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: SetHistory(history.reference_set).record(f"run {number}", evaluation), range(40)))
    entries = history.read()
    assert sorted(entry["name"] for entry in entries.entries) == sorted(f"run {number}" for number in range(40))
    assert entries.damaged == 0


def test_a_history_travels_with_its_set_and_joins_the_one_that_is_there(history: SetHistory, tmp_path: Path) -> None:
    sets, other = ReferenceSets(history.path.parent), ReferenceSets(tmp_path / "other")
    set_id = history.reference_set.id
    history.record("here", scored("a"))
    export_set(sets, set_id, tmp_path / "first.export", Silent())
    with open_export(tmp_path / "first.export") as export:
        import_set(export, other, Silent())
    there = SetHistory(other.open(set_id))
    there.record("there", scored("b"))
    history.record("here again", scored("c"))
    export_set(sets, set_id, tmp_path / "second.export", Silent())
    for _ in range(2):
        with open_export(tmp_path / "second.export") as export:
            import_set(export, other, Silent())
        assert [entry["name"] for entry in there.read().entries] == ["here", "there", "here again"]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, "\u202eevil"])
def test_a_name_that_cannot_stand_in_a_table_is_refused(history: SetHistory, name: str) -> None:
    with refusing(Usage):
        history.record(name, scored("a", ["multi-bleu"]))
    assert not history.path.exists()


def test_packed_scores_of_another_shape_are_refused() -> None:
    with refusing(Corrupt):
        unpack("!", 1, 1)
    with refusing(Corrupt):
        unpack(base64.b64encode(zlib.compress(bytes(8))).decode(), 1, 2)


# ── leaderboard ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_leaderboard_ranks_the_latest_run_of_each_name_and_tests_it_as_score_does(history: SetHistory) -> None:
    for name, seed in (("a", "a"), ("b", "b"), ("a", "c"), ("d", "d")):
        history.record(name, scored(seed))
    tables = leaderboards(history.read().entries, SETTINGS)
    assert [table.metric for table in tables] == ["upsilon-bleu", "multi-bleu"]
    latest = {"a": "c", "b": "b", "d": "d"}
    for place, table in enumerate(tables):
        corpora = {name: scored(seed).scores[place].systems["model"].corpus or 0.0 for name, seed in latest.items()}
        assert [row.run for row in table.rows] == sorted(corpora, key=lambda name: -corpora[name])
        assert [row.corpus for row in table.rows] == sorted(corpora.values(), reverse=True)
        best = table.rows[0].run
        together = _together({name: latest[name] for name in corpora}, place, best)
        for row in table.rows[1:]:
            expected = together[row.run]
            assert row.difference == pytest.approx(expected["difference"], abs=1e-12)
            assert row.p_randomisation == expected["p_randomisation"]
        p_values = sorted(row.p_randomisation or 1 for row in table.rows[1:])
        expected_holm = [min(1, p_values[0] * 2), max(min(1, p_values[0] * 2), p_values[1])]
        assert sorted(row.holm_p or 1 for row in table.rows[1:]) == pytest.approx(expected_holm)
        assert all(row.is_shown == ((row.holm_p or 1) < 0.05) for row in table.rows[1:])


def _together(seeds: dict[str, str], place: int, best: str) -> dict[str, dict[str, float]]:
    """The comparison that `score --baseline` makes of all runs in one file."""
    test_items = [item_of(number) for number in range(1, COUNT + 1)]
    replies: list[dict[str, str]] = [{} for _ in test_items]
    for name, seed in seeds.items():
        rng = random.Random(seed)
        for each in replies:
            each[name] = words(rng)
    replies[3] = {}
    made = [replace(each, replies=of_item) for each, of_item in zip(test_items, replies, strict=True)]
    metric = build(("upsilon-bleu", "multi-bleu")[place])
    evaluation = evaluate(made, [metric], replace(SETTINGS, baseline=best))
    return {name: comparison.as_json() for name, comparison in evaluation.scores[0].comparisons.items()}


def test_runs_by_other_settings_have_a_table_of_their_own(history: SetHistory) -> None:
    history.record("a", scored("a", ["multi-bleu"]))
    history.record("b", scored("b", ["multi-bleu:n=3", "ter"]))
    tables = leaderboards(history.read().entries, SETTINGS)
    assert [(table.metric, len(table.rows)) for table in tables] == [("multi-bleu", 1), ("multi-bleu", 1), ("ter", 1)]
    assert [table.metric for table in leaderboards(history.read().entries, SETTINGS, ["ter"])] == ["ter"]
    history.record("c", scored("c", ["ter"]))
    ter = leaderboards(history.read().entries, SETTINGS, ["ter"])[0]
    assert not ter.higher_is_better
    assert [row.corpus for row in ter.rows] == sorted(row.corpus or 0 for row in ter.rows)
