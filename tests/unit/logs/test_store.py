"""The stored log: parts cut by their rows, manifests that are checked, damage that is found, figures that are right."""

from __future__ import annotations

import random
import statistics as stats
from collections import Counter, defaultdict
from datetime import UTC, datetime
from itertools import pairwise

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from refaug.core.errors import Conflict, Corrupt, NotFound, Usage
from refaug.core.files import read_json, sha256_of
from refaug.core.progress import Silent
from refaug.core.query_engine import QueryEngine
from refaug.core.text.normalisation import normalise
from refaug.logs import part_files
from refaug.logs.deletion import delete
from refaug.logs.manifest import LogManifest, next_revision, part_name
from refaug.logs.pairs import PAIR_SCHEMA, text_key
from refaug.logs.part_files import PartsWriter, PartWriter
from refaug.logs.store import StoredLog, known_pairs, list_logs, new_totals, statistics, totals_of


def rows_of(count, seed=1, *, first=0):
    rng, rows = random.Random(seed), []
    for number in range(first, first + count):
        utterance, response = (
            " ".join(rng.choices(["tea", "is", "cold", "Now!", "so"], k=rng.randint(1, 4))) for _ in "ab"
        )
        rows.append(
            {
                "dialogue": f"d{number // 3}",
                "position": str(number % 3 + 1),
                "utterance": utterance,
                "response": response,
                "utterance_speaker": rng.choice(["ann", "bob", None]),
                "response_speaker": rng.choice(["cem", "dora", None]),
                "time": datetime.fromtimestamp(rng.randrange(10**9), UTC) if rng.random() < 0.8 else None,
                "tags": rng.choice([None, ["a"], ["a", "b"]]),
                "utterance_key": text_key(normalise(utterance)),
                "response_key": text_key(normalise(response)),
            }
        )
    return rows


def batch_of(rows):
    return pa.RecordBatch.from_pylist(rows, schema=PAIR_SCHEMA)


def make_log(logs, rows, *, parts=3, name="chat"):
    folder = logs / name
    folder.mkdir(parents=True)
    size, made = -(-len(rows) // parts), []
    for number in range(parts):
        writer = PartWriter(folder / part_name(number + 1))
        writer.add(batch_of(rows[number * size : (number + 1) * size]))
        made.append(writer.close())
    LogManifest(name=name, created="", updated="", parts=tuple(made), next_part=parts + 1).write(folder)
    return StoredLog.open(logs, name)


@pytest.fixture
def engine(tmp_path):
    with QueryEngine(tmp_path / "engine", memory=512 << 20) as engine:
        yield engine


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
def test_the_same_rows_give_the_same_parts_in_whatever_pieces_they_come(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(part_files, "ROWS_A_GROUP", 8)
    table, rng = batch_of(rows_of(300)), random.Random(seed)

    def written(folder, sizes):
        folder.mkdir()
        writer, at, finished = PartsWriter(folder, "pairs", first=4, part_bytes=2_500), 0, []
        while at < table.num_rows:
            size = sizes()
            writer.add(table.slice(at, size))
            at += size
            finished += writer.take_finished()
            assert writer.unfinished == min(at, table.num_rows) - sum(part.pairs for part in finished)
        finished += writer.close()
        return finished, {path.name: path.read_bytes() for path in folder.iterdir()}

    whole = written(tmp_path / "whole", lambda: 300)
    assert written(tmp_path / "pieces", lambda: rng.randint(1, 70)) == whole
    assert [part.file for part in whole[0]] == [f"pairs-{4 + n:05}.parquet" for n in range(len(whole[0]))]
    assert len(whole[0]) > 5
    assert all(part.pairs % 8 == 0 for part in whole[0][:-1])
    back = [pq.read_table(tmp_path / "whole" / part.file) for part in whole[0]]
    assert pa.concat_tables(back).to_pylist() == table.to_pylist()


def test_a_part_says_its_size_hash_and_number_of_pairs(tmp_path):
    log = make_log(tmp_path, rows_of(10), parts=1)
    part = log.manifest.parts[0]
    assert part.size == (log.folder / part.file).stat().st_size
    assert part.sha256 == sha256_of(log.folder / part.file)
    assert part.pairs == 10


def test_an_abandoned_part_leaves_no_file(tmp_path):
    writer = PartWriter(tmp_path / "x.parquet")
    writer.add(batch_of(rows_of(5)))
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_names_of_parts_and_their_revisions():
    assert part_name(3) == "part-00003.parquet"
    assert next_revision("part-00003.parquet") == "part-00003.r1.parquet"
    assert next_revision("part-00003.r9.parquet") == "part-00003.r10.parquet"
    assert next_revision("part-123456.parquet") == "part-123456.r1.parquet"


# ── manifests ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_manifest_is_read_as_it_was_written(tmp_path):
    log = make_log(tmp_path, rows_of(10))
    assert LogManifest.read(log.folder) == log.manifest


def broken(change):
    def apply(value):
        change(value)
        return orjson.dumps(value)

    return apply


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda value: orjson.dumps(value)[:-20], "not JSON"),
        (lambda value: b"", "not JSON"),
        (lambda value: orjson.dumps([value]), "JSON object"),
        (broken(lambda value: value.update(kind="index")), "log"),
        (broken(lambda value: value.pop("format_version")), "log"),
        (broken(lambda value: value.update(format_version=2)), "reads up to 1"),
        (broken(lambda value: value.pop("parts")), "parts"),
        (broken(lambda value: value.update(parts={})), "parts is not a list"),
        (broken(lambda value: value["parts"][0].pop("sha256")), "sha256"),
        (broken(lambda value: value.update(surprise=1)), "surprise"),
        (broken(lambda value: value.update(erased=7)), "int"),
    ],
)
def test_a_manifest_that_is_not_one_is_corrupt_and_named(tmp_path, damage, why):
    path = make_log(tmp_path, rows_of(10)).folder / "manifest.json"
    path.write_bytes(damage(read_json(path)))
    with refusing(Corrupt, "manifest.json", why):
        StoredLog.open(tmp_path, "chat")


def test_a_log_that_is_not_there_names_those_that_are(tmp_path):
    make_log(tmp_path, rows_of(3))
    (tmp_path / ".deleted-old-1").mkdir()
    (tmp_path / ".deleted-old-1/manifest.json").write_bytes(b"")
    (tmp_path / "unfinished").mkdir()
    assert list_logs(tmp_path) == ["chat"]
    with refusing(NotFound):
        StoredLog.open(tmp_path, "other")
    with pytest.raises(Usage):
        StoredLog.open(tmp_path, "../chat")


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_verify_finds_nothing_wrong_with_a_whole_log(tmp_path):
    log = make_log(tmp_path, rows_of(30))
    assert list(log.verify()) == [(part, None) for part in log.manifest.parts]


@pytest.mark.parametrize("place", [0, 0.3, 0.7, 0.999])
def test_verify_finds_a_flipped_byte_anywhere(tmp_path, place):
    log = make_log(tmp_path, rows_of(30))
    path = log.paths[1]
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1
    path.write_bytes(data)
    troubles = [trouble for _, trouble in StoredLog.open(tmp_path, "chat").verify()]
    assert (troubles[0], troubles[2]) == (None, None)
    assert f"{path} has SHA-256" in troubles[1]


def test_a_missing_or_short_part_is_found_on_opening_and_by_verify(tmp_path):
    log = make_log(tmp_path, rows_of(30))
    log.paths[0].unlink()
    log.paths[2].write_bytes(b"short")
    with refusing(Corrupt, "part-00001.parquet"):
        StoredLog.open(tmp_path, "chat")
    first, second, third = (trouble for _, trouble in StoredLog.open_unchecked(tmp_path, "chat").verify())
    assert "is missing" in first
    assert second is None
    assert "has 5 bytes" in third


def test_verify_finds_a_wrong_number_of_pairs(tmp_path):
    log = make_log(tmp_path, rows_of(30), parts=1)
    path = log.folder / "manifest.json"
    value = read_json(path)
    value["parts"][0]["pairs"] = 31
    path.write_bytes(orjson.dumps(value))
    [(_, trouble)] = StoredLog.open(tmp_path, "chat").verify()
    assert "holds 30 pairs; the manifest says 31" in trouble


# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────

TURNS = st.lists(st.tuples(st.sampled_from("ab ") | st.just(""), st.sampled_from("abc")), max_size=30)


def turns_one_by_one(pairs):
    """The definition: an utterance that the pair before it holds already, as either of its texts, is not new."""
    utterance = response = ""
    for before, after in pairs:
        if before not in (utterance, response):
            yield before
        yield after
        utterance, response = before, after


@settings(deadline=None)
@given(pairs=TURNS, parts=st.integers(1, 3), size=st.integers(1, 7))
def test_turns_match_the_definition_across_batches_and_parts(tmp_path_factory, pairs, parts, size):
    rows = [
        row | {"utterance": before, "response": after}
        for row, (before, after) in zip(rows_of(len(pairs)), pairs, strict=True)
    ]
    log, progress = make_log(tmp_path_factory.mktemp("turns"), rows, parts=parts), Counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredLog.batches, "__kwdefaults__", {"size": size})
        batches = list(log.turns(progress))
    assert [turn for batch in batches for turn in batch.to_pylist()] == list(turns_one_by_one(pairs))
    assert all(batch.type == pa.string() for batch in batches)
    assert progress.pairs == len(pairs)


class Counted(Silent):
    """Progress that is added up."""

    pairs = 0

    def advance(self, amount):
        self.pairs += amount


def test_turns_of_dialogues_are_their_texts_once(tmp_path):
    dialogues = [["hi", "ho", "what?", "ho"], ["tea", "no"], ["tea", "yes", "good"]]  # the last is another branch
    pairs = [pair for turns in dialogues for pair in pairwise(turns)]
    rows = [
        row | {"utterance": before, "response": after}
        for row, (before, after) in zip(rows_of(len(pairs)), pairs, strict=True)
    ]
    turns = [turn for batch in make_log(tmp_path, rows, parts=2).turns() for turn in batch.to_pylist()]
    assert turns == ["hi", "ho", "what?", "ho", "tea", "no", "yes", "good"]


# ── reading while it changes ─────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_from_before_a_deletion_reads_the_old_log_or_is_told(tmp_path):
    rows = rows_of(60)
    log = make_log(tmp_path, rows)
    reader, late = log.batches(["dialogue"], size=10), StoredLog.open(tmp_path, "chat")
    first = next(reader)["dialogue"].to_pylist()
    delete(tmp_path, "chat", dialogues=["d0", "d19"])
    assert first == [row["dialogue"] for row in rows[:10]]
    assert next(reader)["dialogue"].to_pylist() == [row["dialogue"] for row in rows[10:20]]  # its file is still open
    with refusing(Conflict):
        list(late.batches())
    with refusing(Conflict):
        list(log.pairs())


def test_an_engine_from_before_a_deletion_is_told(tmp_path, engine):
    log = make_log(tmp_path, rows_of(60))
    delete(tmp_path, "chat", dialogues=["d0"])
    for ask in (lambda: log.sample(5, 1, engine), lambda: statistics(engine, log)):
        with refusing(Conflict):
            ask()


def test_a_part_that_is_gone_without_a_deletion_is_damage(tmp_path):
    log = make_log(tmp_path, rows_of(60))
    log.paths[1].unlink()
    with refusing(Corrupt):
        list(log.batches())


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sample_is_the_same_for_the_same_seed_however_the_log_is_cut(tmp_path, engine):
    rows = rows_of(200)
    one, other = make_log(tmp_path, rows), make_log(tmp_path / "b", rows, parts=7)
    sample = one.sample(20, 5, engine)
    assert sample == other.sample(20, 5, engine) == one.sample(50, 5, engine)[:20]
    assert sample != one.sample(20, 6, engine)
    assert len({pair.id for pair in sample}) == 20
    everything = {pair.id: pair for pair in one.pairs()}
    assert all(everything[pair.id] == pair for pair in sample)
    assert len(one.sample(1_000, 1, engine)) == 200


def brute_totals(rows):
    return {
        "pairs": len(rows),
        "dialogues": len({row["dialogue"] for row in rows}),
        "distinct_pairs": len({(row["utterance_key"], row["response_key"]) for row in rows}),
        "distinct_utterances": len({row["utterance_key"] for row in rows}),
    }


def test_totals_of_all_are_those_of_the_stored_and_what_is_added(tmp_path, engine):
    rows = rows_of(300)
    log = make_log(tmp_path, rows)
    stored, added = totals_of(engine, log.paths[:2]), new_totals(engine, log.paths[:2], log.paths[2:])
    assert stored == brute_totals(rows[:200])
    assert {name: stored[name] + added[name] for name in stored} == brute_totals(rows)
    assert new_totals(engine, [], log.paths) == totals_of(engine, log.paths) == brute_totals(rows)
    assert new_totals(engine, log.paths, []) == totals_of(engine, []) == dict.fromkeys(stored, 0)


def test_statistics_are_those_counted_by_hand(tmp_path, engine):
    rows = rows_of(500)
    found = statistics(engine, make_log(tmp_path, rows))
    responses = defaultdict(set)
    for row in rows:
        responses[row["utterance_key"]].add(row["response_key"])
    words = [len(row["response"].split()) for row in rows]
    times = [row["time"] for row in rows if row["time"]]
    assert {name: found[name] for name in brute_totals(rows)} == brute_totals(rows)
    assert found["duplicate_pairs"] == len(rows) - brute_totals(rows)["distinct_pairs"]
    assert found["utterances_with_2_responses"] == sum(len(some) >= 2 for some in responses.values())
    assert found["utterances_with_5_responses"] == sum(len(some) >= 5 for some in responses.values())
    assert found["most_responses"] == max(map(len, responses.values()))
    assert found["mean_response_words"] == round(stats.fmean(words), 3)
    assert found["response_words"]["p50"] == stats.median(words)
    assert found["first_time"] == min(times).isoformat()
    assert found["last_time"] == max(times).isoformat()
    assert found["pairs_with_time"] == len(times)
    assert found["pairs_with_speaker"] == sum(row["response_speaker"] is not None for row in rows)
    assert found["speakers_about"] == 2
    assert found["tags"] == Counter(tag for row in rows for tag in row["tags"] or ())
    common = Counter(row["utterance_key"] for row in rows)
    expected = sorted(common.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    assert [(text_key(normalise(one["utterance"])), one["pairs"]) for one in found["common_utterances"]] == expected


def test_known_pairs_are_found_among_very_many_parts(tmp_path, engine):
    stored = make_log(tmp_path, rows_of(1_200), parts=400)
    staged = make_log(tmp_path, [*rows_of(6, first=0), *rows_of(6, first=5_000), *rows_of(3, first=5_001)], name="new")
    found = list(known_pairs(engine, stored.paths, staged.paths))
    assert found == [(0, [0, 1, 2, 3, 4]), (1, [0]), (2, [2, 3, 4])]


@pytest.mark.parametrize(("dialogue_parts", "left_out"), [(1, [0, 1, 3, 4, 5, 6]), (0, [0, 1, 3, 4, 5])])
def test_a_dialogue_may_grow_but_not_go_on_as_another(tmp_path, engine, dialogue_parts, left_out):
    grown = rows_of(3)
    other = [{**row, "dialogue": "d0", "position": str(n)} for n, row in enumerate(rows_of(4, seed=2), 1)]
    stored = make_log(tmp_path, grown[:2], parts=1)
    staged = make_log(tmp_path, [*grown, *other], parts=1, name="new")
    assert list(known_pairs(engine, stored.paths, staged.paths, dialogue_parts=dialogue_parts)) == [(0, left_out)]


def test_turns_of_pieces_are_those_of_the_whole_log(tmp_path):
    rows, folder = rows_of(90), tmp_path / "chat"
    for number in range(0, 90, 4):  # an utterance that is the response before it, also across row groups and parts
        rows[number]["utterance"] = rows[number - 1]["response"]
    folder.mkdir()
    made, at = [], 0
    for part, groups in enumerate(([10, 3, 20], [], [1], [30, 26])):
        writer = PartWriter(folder / part_name(part + 1))
        for size in groups:
            writer.add(batch_of(rows[at : at + size]))
            at += size
        made.append(writer.close())
    LogManifest(name="chat", created="", updated="", parts=tuple(made), next_part=5).write(folder)
    log = StoredLog.open(tmp_path, "chat")
    whole = [turn for turns in log.turns() for turn in turns.to_pylist()]
    pieces = [(0, 0, 1), (0, 1, 3), (2, 0, 1), (3, 0, 1), (3, 1, 2)]
    of_pieces = [t for piece in pieces for turns in log.turns_of(*piece) for t in turns.to_pylist()]
    assert sorted(of_pieces) == sorted(whole)
    assert at == 90
    assert len(whole) < 180
