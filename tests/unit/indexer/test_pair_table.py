"""Logs as tables: exactly those of the plain definition, in its order, however the logs are stored."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_table import NO_TIME, PlainTable, first_half_of_md5, plain_table
from refusals import refusing

from refaug.core.errors import BadInput, Conflict, Usage
from refaug.core.progress import Silent
from refaug.core.query_engine import QueryEngine
from refaug.core.text.normalisation import normalise
from refaug.indexer import columns, pair_table
from refaug.indexer.columns import TextColumn, map_array
from refaug.indexer.pair_table import (
    ErasedKeySets,
    TableCounts,
    build_table,
    changed_keys,
    erased_key,
    fingerprints,
)
from refaug.indexer.search.queries import dialogue_key
from refaug.logs.manifest import LogManifest, part_name
from refaug.logs.pairs import PAIR_SCHEMA, text_key
from refaug.logs.part_files import PartWriter
from refaug.logs.store import StoredLog

TEXT_FILES = {
    "utterances": ("utterances.arrow", "text"),
    "responses": ("pairs.arrow", "text"),
    "dialogues": ("occurrences.arrow", "dialogue"),
    "positions": ("occurrences.arrow", "position"),
    "speakers": ("speakers.arrow", "speaker"),
}
DTYPES = {
    "pair_start": np.int64,
    "occurrence_start": np.int64,
    "occurrence_time": np.int64,
    "occurrence_log": np.uint16,
}
FILES = {f"{field.name}.npy" for field in fields(PlainTable) if field.name not in TEXT_FILES} | {
    file for file, _ in TEXT_FILES.values()
}


def row_of(dialogue, position, utterance, response, *, speakers=(None, None), time=None):
    return {
        "dialogue": dialogue,
        "position": position,
        "utterance": utterance,
        "response": response,
        "utterance_speaker": speakers[0],
        "response_speaker": speakers[1],
        "time": time,
        "tags": None,
        "utterance_key": text_key(normalise(utterance)),
        "response_key": text_key(normalise(response)),
    }


def make_log(logs, name, rows, parts=1):
    (logs / name).mkdir(parents=True)
    size, made = max(1, -(-len(rows) // parts)), []
    for number, first in enumerate(range(0, len(rows), size), start=1):
        writer = PartWriter(logs / name / part_name(number))
        writer.add(pa.RecordBatch.from_pylist(rows[first : first + size], schema=PAIR_SCHEMA))
        made.append(writer.close())
    LogManifest(name=name, created="", updated="", parts=tuple(made)).write(logs / name)
    return StoredLog.open(logs, name)


def tables_in(folder):
    """What build_table has written, as lists; every type is checked, and that nothing else was written."""
    has_speakers = (folder / "speakers.arrow").exists()
    assert {path.name for path in folder.iterdir()} == FILES - (set() if has_speakers else {"speakers.arrow"})
    found = PlainTable()
    for field in fields(PlainTable):
        if field.name == "speakers" and not has_speakers:
            found.speakers = [""] * len(found.dialogues)
        elif field.name in TEXT_FILES:
            file, column = TEXT_FILES[field.name]
            texts = TextColumn.open(folder / file, column)
            setattr(found, field.name, texts.take(np.arange(len(texts))))
        else:
            values = map_array(folder / f"{field.name}.npy", DTYPES.get(field.name, np.uint64))
            setattr(found, field.name, values.tolist())
    assert any(found.speakers) is has_speakers
    return found


def erased_of(pairs=(), dialogues=(), speakers=()):
    return ErasedKeySets(
        pairs=frozenset(erased_key("pair", value) for value in pairs),
        dialogues=frozenset(erased_key("dialogue", value) for value in dialogues),
        speakers=frozenset(erased_key("speaker", value) for value in speakers),
    )


def key(text):
    return text_key(normalise(text))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with QueryEngine(tmp_path_factory.mktemp("engine") / "scratch", memory=512 << 20, threads=2) as engine:
        yield engine


# ── any logs ─────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = ("chat", "b.1", "b-2")
WORDS = (
    "Tea?",
    "tea",
    "TEA!",
    "Yes.",
    "yes",
    "Yes!",
    "so cold",
    "So, cold",
    "茶",
    "茶。",
    "<url>",
    "?!",
    "I'd say 'no'",
)
DIALOGUES = ("d1", "d10", "d2", "é/x", "😀", "a'b")
SPEAKERS = (None, None, "ann", "bob")
MOMENTS = st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

ROWS = st.lists(
    st.builds(
        row_of,
        st.sampled_from(DIALOGUES),
        st.sampled_from(("1", "2", "10", "x")),
        st.sampled_from(WORDS),
        st.sampled_from(WORDS),
        speakers=st.tuples(st.sampled_from(SPEAKERS), st.sampled_from(SPEAKERS)),
        time=st.none() | MOMENTS,
    ),
    max_size=16,
    unique_by=lambda row: (row["dialogue"], row["position"]),
)
LOGS = st.lists(st.tuples(st.sampled_from(NAMES), ROWS), min_size=1, max_size=3, unique_by=lambda log: log[0])
ERASED = st.fixed_dictionaries(
    {},
    optional={
        "pairs": st.sets(st.sampled_from([f"{log}/{dialogue}#1" for log in NAMES for dialogue in DIALOGUES])),
        "dialogues": st.sets(st.sampled_from(DIALOGUES), max_size=2),
        "speakers": st.sets(st.sampled_from(["ann", "bob", ""]), max_size=2),
    },
)
KEYS = st.sets(st.sampled_from([key(word) for word in WORDS]) | st.sampled_from([0, 2**64 - 1]))


def opened(folder, logs, parts=1):
    return [make_log(folder / "logs", name, rows, parts) for name, rows in logs]


@settings(deadline=None, max_examples=12)
@given(logs=LOGS, parts=st.integers(1, 3), erased=ERASED)
def test_the_tables_of_any_logs_are_those_of_the_definition(tmp_path_factory, engine, logs, parts, erased):
    folder = tmp_path_factory.mktemp("table")
    stored = opened(folder, logs, parts)
    expected = plain_table(logs, **erased)
    (folder / "out").mkdir()
    if not expected.utterances:
        with refusing(BadInput):
            build_table(engine, stored, folder / "out", erased=erased_of(**erased), progress=Silent())
        return
    counts = build_table(engine, stored, folder / "out", erased=erased_of(**erased), progress=Silent())
    assert tables_in(folder / "out") == expected
    assert counts == TableCounts(
        utterances=len(expected.utterances),
        pairs=len(expected.responses),
        occurrences=len(expected.dialogues),
        utterance_bytes=len("".join(expected.utterances).encode()),
        response_bytes=len("".join(expected.responses).encode()),
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(logs=LOGS, erased=ERASED, keys=KEYS)
def test_with_keys_only_the_utterances_that_have_them_are_written(tmp_path_factory, engine, logs, erased, keys):
    folder = tmp_path_factory.mktemp("table")
    (folder / "out").mkdir()
    wanted = np.array([*sorted(keys), *keys], np.uint64)  # some twice
    build_table(
        engine, opened(folder, logs), folder / "out", keys=wanted, erased=erased_of(**erased), progress=Silent()
    )
    assert tables_in(folder / "out") == plain_table(logs, keys=keys, **erased)


@pytest.mark.slow
@settings(deadline=None, max_examples=6)
@given(logs=LOGS.filter(lambda logs: any(rows for _, rows in logs)), random=st.randoms(use_true_random=False))
def test_how_logs_are_stored_changes_no_byte_but_the_numbers_of_the_logs(tmp_path_factory, engine, logs, random):
    written = []
    for shuffled in (False, True):
        folder = tmp_path_factory.mktemp("table")
        if shuffled:
            logs = [(name, random.sample(rows, len(rows))) for name, rows in random.sample(logs, len(logs))]
        (folder / "out").mkdir()
        build_table(engine, opened(folder, logs, random.randint(1, 4)), folder / "out", progress=Silent())
        written.append({path.name: path.read_bytes() for path in (folder / "out").iterdir()})
        places = map_array(folder / "out" / "occurrence_log.npy", np.uint16)
        written[-1]["occurrence_log.npy"] = [logs[place][0] for place in places]
    assert written[0] == written[1]


@settings(deadline=None, max_examples=6)
@given(before=LOGS, after=LOGS, same=st.floats(0, 1), erased=ERASED, parts=st.integers(1, 2), split=st.integers(0, 8))
def test_an_update_of_the_changed_keys_gives_what_a_new_build_gives(
    tmp_path_factory, engine, before, after, same, erased, parts, split
):
    after = [
        (name, sorted(unique_rows([*rows[: round(same * len(rows))], *dict(after).get(name, ())]), key=str))
        for name, rows in before
    ]
    folder, later = tmp_path_factory.mktemp("before"), tmp_path_factory.mktemp("after")
    old, new = plain_table(before), plain_table(after, **erased)
    old_prints, new_prints = (dict(zip(one.utterance_key, one.fingerprint, strict=True)) for one in (old, new))
    known = [
        (np.array(old.utterance_key[part], np.uint64), np.array(old.fingerprint[part], np.uint64))
        for part in (slice(split), slice(split, None))
    ]
    stored = opened(later, after, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_table, "_KEYS_IN_MEMORY", 3)
        found = changed_keys(engine, stored, erased_of(**erased), known)
    assert found.changed.tolist() == sorted(one for one in new_prints if old_prints.get(one) != new_prints[one])
    assert found.gone.tolist() == sorted(old_prints.keys() - new_prints.keys())
    assert found.changed.dtype == found.gone.dtype == np.uint64
    build_table(engine, stored, folder, keys=found.changed, erased=erased_of(**erased), progress=Silent())
    delta = tables_in(folder)
    assert delta == plain_table(after, keys=set(found.changed.tolist()), **erased)
    live = old_prints.keys() - set(found.changed.tolist()) - set(found.gone.tolist())
    assert live | set(delta.utterance_key) == new_prints.keys()


def unique_rows(rows):
    return list({(row["dialogue"], row["position"]): row for row in rows}.values())


# ── by eye ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_differing_in_case_and_marks_are_merged_by_smallest_hash(tmp_path, engine):
    one = make_log(
        tmp_path,
        "one",
        [row_of("d", "1", "Tea?", "Yes."), row_of("d", "2", "tea", "yes"), row_of("e", "1", "TEA", "no")],
    )
    two = make_log(tmp_path, "two", [row_of("d", "1", "tea!", "yes", time=datetime(1970, 1, 1, tzinfo=UTC))])
    (tmp_path / "out").mkdir()
    counts = build_table(engine, [two, one], tmp_path / "out", progress=Silent())
    found = tables_in(tmp_path / "out")
    assert (counts.utterances, counts.pairs, counts.occurrences) == (1, 2, 4)
    assert (found.utterances, found.utterance_sha) == (["Tea?"], [0x039A7DE45A806263])  # tea! is f2ac…, TEA 9b0e…
    assert (found.responses, found.response_sha) == (["Yes.", "no"], [0x5F9A2B795615BA6A, 0x9390298F3FB0C5B1])
    assert (found.pair_start, found.occurrence_start) == ([0, 2], [0, 3, 4])
    assert found.occurrence_log == [1, 1, 0, 1]  # by the logs' names, not by their places in the list
    assert (found.dialogues, found.positions) == (["d", "d", "d", "e"], ["1", "2", "1", "1"])
    assert found.occurrence_time == [NO_TIME, NO_TIME, 0, NO_TIME]


def test_the_same_place_in_two_logs_is_two_occurrences(tmp_path, engine):
    logs = [make_log(tmp_path, name, [row_of("d", "1", "hi", "ho")]) for name in ("one", "two")]
    (tmp_path / "out").mkdir()
    build_table(engine, logs, tmp_path / "out", progress=Silent())
    found = tables_in(tmp_path / "out")
    assert (found.pair_start, found.occurrence_start) == ([0, 1], [0, 2])
    assert (found.dialogues, found.positions, found.occurrence_log) == (["d", "d"], ["1", "1"], [0, 1])


def test_groups_that_reach_over_the_borders_of_batches_are_one(tmp_path, engine, monkeypatch):
    for module in (columns, pair_table):
        monkeypatch.setattr(module, "ROWS_A_BATCH", 2_048)
    rows = [
        row_of(f"d{number:05}", "1", "yes" if number % 3 else f"text {number}", "yes" if number % 2 else f"re {number}")
        for number in range(9_000)
    ]
    log = make_log(tmp_path, "one", rows, parts=2)
    (tmp_path / "out").mkdir()
    build_table(engine, [log], tmp_path / "out", progress=Silent())
    assert tables_in(tmp_path / "out") == plain_table([("one", rows)])


def test_fingerprint_covers_everything_an_index_takes_from_a_pair(tmp_path, engine):
    row = row_of("d", "1", "hi", "ho", time=datetime(2020, 1, 1, tzinfo=UTC), speakers=("ann", "bob"))
    others = [
        {**row, "dialogue": "e"},
        {**row, "position": "2"},
        {**row, "utterance": "Hi"},
        {**row, "response": "Ho"},
        {**row, "time": row["time"] + timedelta(microseconds=1)},
        {**row, "time": None},
        {**row, "response_speaker": "eve"},
        {**row, "response_speaker": None},
    ]
    prints = []
    for number, one in enumerate([row, *others]):
        assert fingerprints(engine, [make_log(tmp_path / str(number), "one", [one])]) == 1
        prints += engine.rows("SELECT utterance_key, fingerprint FROM fingerprint")
    fingerprints(engine, [make_log(tmp_path, "two", [row])])
    prints += engine.rows("SELECT utterance_key, fingerprint FROM fingerprint")
    assert {found for found, _ in prints} == {key("hi")}
    assert len({found for _, found in prints}) == 10
    # indexes store these numbers, so they may never change
    fields = "one\x1fd\x1f1\x1fho\x1fhi\x1f1577836800000000"
    assert prints[0][1] == first_half_of_md5(f"{fields}\x1fbob") == 3534338009323652078
    assert prints[8][1] == first_half_of_md5(fields) == 3513077852046320976


def test_keys_of_dialogues_and_erasures_equal_those_of_the_log_engine(engine):
    for text in ("d1", "", "é/x#1", "😀", "a'b"):
        assert engine.number("SELECT md5_number_upper(?)", [text]) == dialogue_key(text)
        assert engine.rows("SELECT sha256(concat('speaker', chr(31), ?))", [text]) == [(erased_key("speaker", text),)]
    assert dialogue_key("d1") == 8585150343200262297  # indexes hold it: it may never change


def test_logs_without_pairs_are_refused_by_name(tmp_path, engine):
    empty, full = make_log(tmp_path, "empty", []), make_log(tmp_path, "full", [row_of("d", "1", "hi", "ho")])
    with refusing(BadInput):
        build_table(engine, [empty], tmp_path, progress=Silent())
    with refusing(BadInput):
        build_table(engine, [full, empty], tmp_path, erased=erased_of(dialogues=["d"]), progress=Silent())
    with refusing(Usage):
        build_table(engine, [full, full], tmp_path, progress=Silent())


def test_logs_that_have_lost_all_their_pairs_change_every_utterance(tmp_path, engine):
    known = [(np.array([7, 2**64 - 1, 3], np.uint64), np.array([1, 2, 3], np.uint64))]
    found = changed_keys(engine, [make_log(tmp_path, "empty", [])], None, known)
    assert (found.changed.tolist(), found.gone.tolist()) == ([], [3, 7, 2**64 - 1])
    (tmp_path / "out").mkdir()
    build_table(engine, [StoredLog.open(tmp_path, "empty")], tmp_path / "out", keys=found.changed, progress=Silent())
    assert tables_in(tmp_path / "out") == PlainTable(pair_start=[0], occurrence_start=[0])


def test_a_part_that_was_replaced_meanwhile_is_a_conflict(tmp_path, engine):
    log = make_log(tmp_path, "one", [row_of("d", "1", "hi", "ho")])
    log.paths[0].unlink()
    with refusing(Conflict):
        build_table(engine, [log], tmp_path, progress=Silent())


def test_every_stage_advances_by_what_it_announced(tmp_path, engine):
    stages = []

    class Listening(Silent):
        def stage(self, name, total=None, unit=""):
            stages.append([name, total, unit, 0])

        def advance(self, amount):
            stages[-1][3] += amount

    rows = [row_of("d", "1", "hi", "ho"), row_of("d", "2", "Hi", "Ho"), row_of("e", "1", "hi", "no")]
    build_table(engine, [make_log(tmp_path, "one", rows, parts=2)], tmp_path, progress=Listening())
    assert stages == [
        ["reading the logs", 3, "pairs", 3],
        ["grouping equal texts", None, "", 0],
        ["writing utterances", 1, "utterances", 1],
        ["writing pairs", 2, "pairs", 2],
        ["writing occurrences", 3, "pairs", 3],
    ]
