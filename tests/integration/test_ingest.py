"""`refaug log ingest` from end to end, held to the plain-Python reference."""

from __future__ import annotations

import csv
import gzip
import io
import random

import orjson
import pytest
from integration.conftest import content
from integration.reference import (
    SPEAKERS,
    Outcome,
    add_dialogue,
    dialogue_log,
    join,
    message,
    pair,
    stored,
    text,
    totals,
)
from refusals import refusing

from refaug.core.errors import SourceChanged
from refaug.core.files import exclusive, read_json
from refaug.core.progress import Silent
from refaug.logs import part_files
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest import order as staging
from refaug.logs.ingest import source_reading
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.ingest.pairing import FloodCounter


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(part_files, "ROWS_A_GROUP", 8)
    monkeypatch.setattr(staging, "PART_BYTES", 3_000)
    monkeypatch.setitem(FloodCounter.__init__.__kwdefaults__, "bits", 12)


def rejected(path):
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write(path, *rows):
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


# ── what comes out ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dialogues_give_the_reference_pairs_in_order(home, tmp_path, seed):
    source = tmp_path / "log.jsonl"
    data, outcome = dialogue_log(seed, 300)
    source.write_bytes(data)
    report = home.ingest(source).json
    assert stored(home.open()) == outcome.pairs
    assert report["pairs_added"] == len(outcome.pairs)
    assert report["totals"] == totals(outcome.pairs)


@pytest.mark.parametrize("format_", ["jsonl", "csv", "tsv", "aligned"])
def test_pairs_of_any_format_give_the_reference_pairs_in_order(home, tmp_path, format_):
    rng = random.Random(format_)
    rows = [(text(rng), text(rng)) for _ in range(400)]
    rows = [(a, b) for a, b in rows if "\t" not in a.raw + b.raw]
    if format_ == "jsonl":
        sources = [tmp_path / "p.jsonl"]
        sources[0].write_bytes(b"".join(orjson.dumps({"utterance": a.raw, "response": b.raw}) + b"\n" for a, b in rows))
    elif format_ == "aligned":
        sources = [tmp_path / "u.txt", tmp_path / "r.txt"]
        for side, path in enumerate(sources):
            path.write_text("".join(row[side].raw + "\n" for row in rows))
    else:
        sources, table = [tmp_path / f"p.{format_}"], io.StringIO()
        if format_ == "csv":
            csv.writer(table).writerows([("utterance", "response"), *((a.raw, b.raw) for a, b in rows)])
        else:
            table.write("utterance\tresponse\n" + "".join(f"{a.raw}\t{b.raw}\n" for a, b in rows))
        sources[0].write_text(table.getvalue())
    more = ("--format", "aligned") if format_ == "aligned" else ()
    home.ingest(*sources, *more)
    found = [(p["position"], p["utterance"], p["response"]) for p in stored(home.open())]
    assert found == [("1", a.kept, b.kept) for a, b in rows if a.kept is not None and b.kept is not None]
    first = 2 if format_ in ("csv", "tsv") else 1
    lines = [int(p["dialogue"].split(":")[1]) for p in stored(home.open())]
    assert lines == [n for n, (a, b) in enumerate(rows, first) if a.kept is not None and b.kept is not None]


def test_messages_give_the_reference_pairs_in_order(home, tmp_path):
    rng = random.Random(4)
    messages = [
        message(f"m{n}", f"m{rng.randrange(n)}" if n % 5 else None, kept=rng.random() < 0.9) for n in range(400)
    ]
    rng.shuffle(messages)
    (tmp_path / "m.jsonl").write_bytes(b"\n".join(m.line for m in messages))
    report = home.ingest(tmp_path / "m.jsonl").json
    pairs, counts, _ = join(messages)
    assert stored(home.open()) == pairs
    assert {name: report["counts"].get(f"trees:{name}", 0) for name in counts} == counts


def test_files_folders_and_patterns_are_read_in_the_order_named(home, tmp_path):
    expected, folder = [], tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    for seed, name in enumerate(["z.jsonl", "folder/a.jsonl", "folder/deep/b.jsonl", "p1.jsonl", "p2.jsonl"]):
        data, outcome = dialogue_log(seed, 20, prefix=f"{seed}-")
        (tmp_path / name).write_bytes(data)
        expected += outcome.pairs
    (folder / ".hidden.jsonl").write_text("not read")
    report = home.ingest(tmp_path / "z.jsonl", folder, tmp_path / "p?.jsonl").json
    assert stored(home.open()) == expected
    assert [source["name"].removeprefix(f"{tmp_path}/") for source in report["sources"]] == [
        "z.jsonl",
        "folder/a.jsonl",
        "folder/deep/b.jsonl",
        "p1.jsonl",
        "p2.jsonl",
    ]


@pytest.mark.slow
def test_workers_and_block_sizes_change_not_one_byte(home_at, tmp_path, monkeypatch, small_parts):
    monkeypatch.setattr(source_reading, "_SMALL_BYTES", 0)
    data, _ = dialogue_log(1, 250)
    (tmp_path / "log.jsonl").write_bytes(data)
    rng = random.Random(2)
    messages = [message(f"m{n}", f"m{rng.randrange(n)}" if n % 9 else None) for n in range(300)]
    (tmp_path / "m.jsonl").write_bytes(b"\n".join(m.line for m in messages))
    found = []
    for number, (workers, block) in enumerate([(0, 4 << 20), (0, 512), (0, 3_000), (1, 2_000), (2, 700)]):
        monkeypatch.setattr(staging.IngestOrder, "block_bytes", block)
        home = home_at(tmp_path / f"home{number}")
        result = home.ingest(tmp_path / "log.jsonl", tmp_path / "m.jsonl", "--workers", workers, "--flood-cap", "3")
        assert result.code == 0, result.err
        found.append(content(home))
        for ingest in found[-1]["manifest.json"]["ingests"]:
            del ingest["key"]  # a stage is not taken up with another block size
    assert len(found[0]) > 5
    assert all(one == found[0] for one in found[1:])


# ── again, and more ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_ingesting_again_changes_not_one_byte(home, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 30)[0])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    home.ingest(tmp_path / "log.jsonl", tmp_path / "empty.jsonl")
    before = home.files()
    again = home.ingest(tmp_path / "log.jsonl", tmp_path / "empty.jsonl")
    assert again.code == 0
    assert home.files() == before
    assert again.json["pairs_added"] == 0
    assert again.json["already_there"] == [str(tmp_path / "log.jsonl")]


def test_the_same_content_is_recognised_under_another_name(home, tmp_path):
    data, outcome = dialogue_log(1, 30)
    for name in ("one.jsonl", "two.jsonl", "three.jsonl"):
        (tmp_path / name).write_bytes(data)
    first = home.ingest(tmp_path / "one.jsonl", tmp_path / "two.jsonl").json
    assert first["already_there"] == [str(tmp_path / "two.jsonl")]
    before = home.files()
    assert home.ingest(tmp_path / "three.jsonl").json["already_there"] == [str(tmp_path / "three.jsonl")]
    assert home.files() == before
    assert stored(home.open()) == outcome.pairs


def test_the_same_file_with_other_settings_is_a_conflict(home, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 30)[0])
    home.ingest(tmp_path / "log.jsonl")
    before = home.files()
    result = home.ingest(tmp_path / "log.jsonl", "--no-ids")
    assert (result.code, result.error["code"]) == (4, "conflict")
    assert "use_ids" in result.error["message"]
    assert home.files() == before


def test_cleaning_belongs_to_the_log_and_what_an_order_has_otherwise_is_named(home, tmp_path):
    expected = list[dict[str, object]]()
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.jsonl").write_bytes(dialogue_log(seed, 30, prefix=name)[0])
        home.ingest(tmp_path / f"{name}.jsonl", "--max-chars", "40", "--no-rule", "urls", log=name)
        expected += stored(home.open(name))
    home.ingest(tmp_path / "one.jsonl", "--max-chars", "40", "--no-rule", "urls")
    again = home.ingest(tmp_path / "one.jsonl", "--max-chars", "50", "--min-chars", "2")
    assert (again.code, again.json["pairs_added"]) == (0, 0)
    assert "max_chars" in again.err
    assert "min_chars" in again.err
    further = home.ingest(tmp_path / "two.jsonl")
    assert (further.code, "since its first ingest" in further.err) == (0, False)
    assert stored(home.open()) == expected


def test_one_aligned_file_may_answer_two_others(home, tmp_path):
    for name, line in (("u", "what is that"), ("r1", "it is tea"), ("r2", "it is soup")):
        (tmp_path / name).write_text(f"{line}\n")
    home.ingest(tmp_path / "u", tmp_path / "r1", "--format", "aligned")
    assert home.ingest(tmp_path / "u", tmp_path / "r2", "--format", "aligned", "--no-ids").code == 0
    again = home.ingest(tmp_path / "u", tmp_path / "r1", "--format", "aligned").json
    assert again["already_there"] == [str(tmp_path / "u"), str(tmp_path / "r1")]


def test_totals_stay_what_counting_everything_gives(home, tmp_path):
    everything = []
    for seed in range(4):
        data, outcome = dialogue_log(seed, 60, prefix=f"{seed}-")
        (tmp_path / f"{seed}.jsonl").write_bytes(data)
        everything += outcome.pairs
        report = home.ingest(tmp_path / f"{seed}.jsonl").json
        assert report["totals"] == totals(everything)
    manifest = home.open().manifest
    assert dict(manifest.totals) == totals(everything)
    assert [part.file for part in manifest.parts] == [f"part-{n:05}.parquet" for n in (1, 2, 3, 4)]
    assert stored(home.open()) == everything


def test_part_numbers_go_beyond_five_digits(home, tmp_path, small_parts):
    (tmp_path / "a.jsonl").write_bytes(dialogue_log(1, 30, prefix="a")[0])
    home.ingest(tmp_path / "a.jsonl")
    manifest = read_json(home.logs / "chat/manifest.json")
    manifest["next_part"] = 99_999
    (home.logs / "chat/manifest.json").write_bytes(orjson.dumps(manifest))
    count, pairs = len(manifest["parts"]), []
    for seed in (2, 3):
        data, outcome = dialogue_log(seed, 30, prefix=f"{seed}-")
        (tmp_path / f"{seed}.jsonl").write_bytes(data)
        home.ingest(tmp_path / f"{seed}.jsonl")
        pairs += outcome.pairs
    names = [part.file for part in home.open().manifest.parts][count:]
    assert names == [f"part-{n}.parquet" for n in range(99_999, 99_999 + len(names))]
    assert stored(home.open())[-len(pairs) :] == pairs


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def row(identity, *turns):
    return {"id": identity, "turns": list(turns)}


def test_of_dialogues_with_one_id_the_first_stays(home, tmp_path):
    first = write(tmp_path / "1.jsonl", row("a", "one two", "three four"), row("a", "five six", "seven eight"))
    other = write(
        tmp_path / "2.jsonl", row("b", "tea please", "here it is"), row("a", "one two", "three four", "twelve")
    )
    soup = row("b", "soup please", "there it is", "one more")  # another dialogue, of which no turn is taken
    third = write(tmp_path / "3.jsonl", soup, row("c", "who is it", "it is me"))
    reports = [
        home.ingest(first, other, "--rejects", tmp_path / "r1").json,
        home.ingest(third, "--rejects", tmp_path / "r2").json,
    ]
    assert [(p["dialogue"], p["position"], p["response"]) for p in stored(home.open())] == [
        ("a", "1", "three four"),
        ("b", "1", "here it is"),
        ("a", "2", "twelve"),  # a dialogue that grew brings what is new
        ("c", "1", "it is me"),
    ]
    assert [report["counts"]["duplicate pair ids"] for report in reports] == [2, 2]
    assert [source["counts"]["duplicate pair ids"] for source in reports[0]["sources"]] == [1, 1]
    assert "--no-ids" in reports[0]["problems"][0]
    assert [(r["source"], r["reason"], r["dialogue"], r["position"], r["text"]) for r in rejected(tmp_path / "r1")] == [
        (str(first), "duplicate-id", "a", "1", "seven eight"),
        (str(other), "duplicate-id", "a", "1", "three four"),
    ]
    assert [(r["dialogue"], r["text"]) for r in rejected(tmp_path / "r2")] == [("b", "there it is"), ("b", "one more")]
    assert dict(home.open().manifest.totals)["pairs"] == 4


def test_a_file_without_ids_that_grew_is_added_again_with_a_warning(home, tmp_path):
    path = tmp_path / "t.jsonl"
    home.ingest(write(path, {"turns": ["one two", "three four"]}))
    report = home.ingest(write(path, {"turns": ["one two", "three four"]}, {"turns": ["five", "six"]})).json
    assert report["totals"]["pairs"] == 3
    assert report["problems"] == [
        f"{path}: changed since it was added, and has no ids: all of its pairs are added again; with an id in every "
        "row (--map id=FIELD) only new ones are"
    ]


# ── what is left out ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_rejects_hold_every_dropped_turn_and_bad_row_with_its_line(home, tmp_path):
    data, outcome = dialogue_log(5, 300)
    lines = data.splitlines()
    lines.insert(7, b"{broken")
    lines.insert(50, b'{"id": "x", "turns": []}')
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(lines))
    report = home.ingest(tmp_path / "log.jsonl", "--rejects", tmp_path / "out.jsonl").json

    def shifted(line):
        return line + (line >= 8) + (line >= 50)

    dropped = [(shifted(line), reason, d, p) for _, line, reason, d, p in outcome.dropped]
    found = rejected(tmp_path / "out.jsonl")
    assert {one["source"] for one in found} == {str(tmp_path / "log.jsonl")}
    turns = [one for one in found if not one["reason"].startswith("bad:")]
    assert [(r["line"], r["reason"], r["dialogue"], r["position"]) for r in turns] == dropped
    bad = [(one["line"], one["reason"]) for one in found if one["reason"].startswith("bad:")]
    assert bad == [(8, "bad:json"), (51, "bad:fields")]
    assert report["counts"]["rows"] == 302


def test_every_row_and_turn_is_accounted_for(home, tmp_path):
    data, outcome = dialogue_log(6, 400)
    (tmp_path / "log.jsonl").write_bytes(data + b"{broken\n" * 3 + b"[]\n" * 2)
    counts = home.ingest(tmp_path / "log.jsonl").json["counts"]
    assert counts["rows"] == counts["dialogues"] + counts["bad:json"]
    assert counts["bad:json"] == 5
    assert counts["turns"] == outcome.turns
    assert {n: c for n, c in counts.items() if n.startswith("dropped:")} == outcome.reasons


def test_flooded_message_stays_a_node_of_its_tree_and_is_rejected_by_line(home, tmp_path):
    ad = "buy our excellent lamps today and only today"
    rows = [{"id": "r", "parent": None, "text": "what is new"}]
    for n in range(4):
        rows.append({"id": f"a{n}", "parent": "r", "text": ad})
        rows.append({"id": f"b{n}", "parent": f"a{n}", "text": f"go away {n}"})
    home.ingest(write(tmp_path / "m.jsonl", *rows), "--flood-cap", "2", "--rejects", tmp_path / "out")
    assert [p["position"] for p in stored(home.open())] == ["a0", "b0", "a1", "b1"]
    assert [(r["line"], r["reason"], r["position"]) for r in rejected(tmp_path / "out")] == [
        (6, "flood", "a2"),
        (8, "flood", "a3"),
    ]


def test_blocked_speakers_are_dropped_and_break_the_dialogue(home, tmp_path):
    rng, outcome, lines = random.Random(9), Outcome(), []
    for number in range(100):
        turns = [(text(rng), rng.choice(SPEAKERS), 1_600_000_000) for _ in range(5)]
        lines.append({"id": f"d{number}", "turns": [{"text": t.raw, "speaker": s, "time": at} for t, s, at in turns]})
        add_dialogue(outcome, f"d{number}", turns, tags=(), file="", line=number + 1, blocked=("ann", "dora"))
    (tmp_path / "names").write_text("dora\n\n")
    source = write(tmp_path / "log.jsonl", *lines)
    counts = home.ingest(source, "--block-speaker", "ann", "--block-speakers", tmp_path / "names").json["counts"]
    assert stored(home.open()) == outcome.pairs
    assert {n: c for n, c in counts.items() if n.startswith("dropped:")} == outcome.reasons
    assert b"dora" not in b"".join(home.files().values())


def test_on_error_stop_ends_at_the_first_bad_row(home, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 10)[0] + b"{broken\n")
    result = home.ingest(tmp_path / "log.jsonl", "--on-error", "stop")
    assert (result.code, result.error["code"]) == (3, "bad_input")
    assert f"{tmp_path / 'log.jsonl'}, line 11" in result.error["message"]
    assert not (home.logs / "chat/manifest.json").exists()


def test_a_refused_ingest_leaves_nothing_to_resume(home, tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(staging.IngestOrder, "block_bytes", 500)
    good = dialogue_log(1, 40)[0]
    (tmp_path / "log.jsonl").write_bytes(b"{broken\n" + good + b"{broken\n" * 60)
    assert home.ingest(tmp_path / "log.jsonl").error["code"] == "too_many_bad_rows"
    assert list((home.logs / "chat").glob(".staging-*")) == []
    result = home.ingest(tmp_path / "log.jsonl", "--on-error", "stop")
    assert "line 1:" in result.error["message"]


def test_too_many_bad_rows_are_refused_and_may_be_allowed(home, tmp_path):
    good, _ = dialogue_log(1, 90)
    (tmp_path / "other.jsonl").write_bytes(dialogue_log(2, 20, prefix="o")[0] + b"{one bad\n")
    (tmp_path / "log.jsonl").write_bytes(good + b"{broken\n" * 30)
    sources = (tmp_path / "other.jsonl", tmp_path / "log.jsonl")
    result = home.ingest(*sources)
    assert (result.code, result.error["code"]) == (3, "too_many_bad_rows")
    assert "120" in result.error["message"]
    assert "the first: " + str(tmp_path / "log.jsonl") + ", line 91" in result.error["message"]
    allowed = home.ingest(*sources, "--max-bad-share", "0.3")
    assert allowed.json["counts"]["bad:json"] == 31


def test_an_empty_file_is_refused_alone_and_passed_over_beside_others(home, tmp_path):
    data, outcome = dialogue_log(1, 10)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "empty.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "log.jsonl").write_bytes(data)
    for alone in ("empty.jsonl", "empty.jsonl.gz"):
        result = home.ingest(tmp_path / alone)
        assert (result.code, result.error["code"]) == (3, "no_source")
        assert result.error["message"] == f"{tmp_path / alone}: empty"
        assert list(home.logs.iterdir()) == []
    beside = home.ingest(tmp_path / "empty.jsonl", tmp_path / "log.jsonl", tmp_path / "empty.jsonl.gz")
    assert stored(home.open()) == outcome.pairs
    assert str(tmp_path / "empty.jsonl.gz") in beside.err


def test_a_log_of_nothing_but_dropped_turns_is_refused_with_the_reasons(home, tmp_path):
    rows = [row(f"d{n}", "[deleted]", "[removed]", " ") for n in range(3)]
    result = home.ingest(write(tmp_path / "log.jsonl", *rows), "--rejects", tmp_path / "out")
    assert (result.code, result.error["message"]) == (3, "no pair came out of 3 rows: deleted 6, empty 3")
    assert len(rejected(tmp_path / "out")) == 9
    assert list(home.logs.iterdir()) == []


@pytest.mark.parametrize("rejects", ["no/such/folder/out.jsonl", "log.jsonl", "."])
def test_rejects_are_refused_where_they_cannot_be_written(home, tmp_path, rejects):
    data, _ = dialogue_log(1, 10)
    (tmp_path / "log.jsonl").write_bytes(data)
    result = home.ingest(tmp_path / "log.jsonl", "--rejects", tmp_path / rejects)
    assert (result.code, result.error["code"]) == (2, "usage")
    assert (tmp_path / "log.jsonl").read_bytes() == data


# ── sources that move, context, names, locks ──────────────────────────────────────────────────────────────────────────


class Meddler(Silent):
    """Someone who changes a file when a stage begins."""

    def __init__(self, stage, change) -> None:
        self.wanted, self.change = stage, change

    def stage(self, name, total=None, unit=""):
        if name == self.wanted:
            self.change()


@pytest.mark.parametrize("stage", ["reading", "checking ids"])
@pytest.mark.parametrize("how", ["appended to", "cut", "removed"])
def test_a_source_that_changes_while_it_is_read_is_refused(home, tmp_path, stage, how):
    source = tmp_path / "log.jsonl"
    data, outcome = dialogue_log(1, 50)
    source.write_bytes(data)
    change = {
        "appended to": lambda: source.write_bytes(data + data),
        "cut": lambda: source.write_bytes(data[:1000]),
        "removed": source.unlink,
    }[how]
    with refusing(SourceChanged, "log.jsonl"):
        ingesting.ingest(IngestOrder(sources=(str(source),), log="chat"), home.logs, Meddler(stage, change))
    assert not (home.logs / "chat/manifest.json").exists()
    source.write_bytes(data)
    assert home.ingest(source).code == 0
    assert stored(home.open()) == outcome.pairs


def test_parts_of_a_changed_source_are_not_taken_up_when_it_changes_back(home, tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(staging.IngestOrder, "block_bytes", 500)
    source, (data, outcome) = tmp_path / "log.jsonl", dialogue_log(1, 50)
    source.write_bytes(data)
    other = data.replace(b"tea", b"tee").replace(b"soup", b"sour")
    assert len(other) == len(data)
    order = IngestOrder(sources=(str(source),), log="chat")
    with pytest.raises(SourceChanged):
        ingesting.ingest(order, home.logs, Meddler("reading", lambda: source.write_bytes(other)))
    source.write_bytes(data)
    home.ingest(source)
    assert stored(home.open()) == outcome.pairs


def test_context_gives_parents_and_no_pairs_of_its_own(home, tmp_path):
    old = [message("a"), message("b", "a"), message("c", "b")]
    new = [message("d", "c"), message("e", "x"), message("f", "d")]
    for name, messages in (("old", old), ("new", new)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(m.line for m in messages))
    report = home.ingest(
        tmp_path / "new.jsonl", "--context", tmp_path / "old.jsonl", "--rejects", tmp_path / "out"
    ).json
    d, f = "message d speaking", "message f speaking"
    assert stored(home.open()) == [pair("a", "d", "message c speaking", d), pair("a", "f", d, f)]
    assert [source["name"] for source in report["sources"]] == [str(tmp_path / "new.jsonl")]
    assert [(r["line"], r["reason"], r["position"]) for r in rejected(tmp_path / "out")] == [(2, "orphan", "e")]


def test_two_ingests_into_one_log_do_not_meet(home, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 10)[0])
    with exclusive(home.logs / "chat", "ingesting into log chat"):
        result = home.ingest(tmp_path / "log.jsonl")
    assert (result.code, result.error["code"]) == (4, "locked")
    assert home.ingest(tmp_path / "log.jsonl").code == 0


@pytest.mark.parametrize("name", ["", "Chat", "../chat", "a/b", ".hidden", "ä", "x" * 65, "a b"])
def test_what_is_no_name_reaches_no_path(home, tmp_path, name):
    (tmp_path / "log.jsonl").write_bytes(dialogue_log(1, 3)[0])
    result = home("log", "ingest", tmp_path / "log.jsonl", f"--log={name}", "--json")
    assert (result.code, result.error["code"]) == (2, "usage")
    assert not home.path.exists()


def test_another_memory_does_not_take_up_a_stage_counted_in_other_blocks(home, tmp_path, small_parts, monkeypatch):
    monkeypatch.setattr(staging.IngestOrder, "block_bytes", property(lambda order: order.memory >> 20))
    data, outcome = dialogue_log(1, 60)
    (tmp_path / "log.jsonl").write_bytes(data)
    order = IngestOrder(sources=(str(tmp_path / "log.jsonl"),), log="chat", memory=1 << 30)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingesting.ingest(order, home.logs, Meddler("checking ids", stop))
    report = home.ingest(tmp_path / "log.jsonl", "--memory", "512MiB").json
    assert not report["resumed"]
    assert stored(home.open()) == outcome.pairs


def test_a_stage_with_a_missing_file_is_begun_afresh(home, tmp_path, small_parts):
    data, outcome = dialogue_log(1, 60)
    (tmp_path / "log.jsonl").write_bytes(data)

    def stop():
        raise KeyboardInterrupt

    order = IngestOrder(sources=(str(tmp_path / "log.jsonl"),), log="chat")
    with pytest.raises(KeyboardInterrupt):
        ingesting.ingest(order, home.logs, Meddler("publishing", stop))
    next((home.logs / "chat").glob(".staging-*/pairs-00001.parquet")).unlink()
    assert not home.ingest(tmp_path / "log.jsonl").json["resumed"]
    assert stored(home.open()) == outcome.pairs
    assert not list((home.logs / "chat").glob(".staging-*"))
