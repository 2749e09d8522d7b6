"""`refaug log delete`: exactly what was named goes, and stays away."""

from __future__ import annotations

import random

import orjson
import pytest
from encoders import keep_texts, kept_texts
from integration.reference import dialogue_log, message, stored, totals

from refaug.core.progress import Silent
from refaug.logs import part_files
from refaug.logs.ingest import ingest as ingesting
from refaug.logs.ingest import order as staging
from refaug.logs.ingest.order import IngestOrder
from refaug.logs.ingest.pairing import FloodCounter


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(part_files, "ROWS_A_GROUP", 8)
    monkeypatch.setattr(staging, "PART_BYTES", 3_000)
    monkeypatch.setitem(FloodCounter.__init__.__kwdefaults__, "bits", 12)


def made(home, tmp_path, *, count=80):
    data, outcome = dialogue_log(1, count)
    data = data.replace(b'"ann"', b'"ann-of-cleves"').replace(b'"d7"', b'"dialogue-seven"')
    (tmp_path / "log.jsonl").write_bytes(data)
    for pair in outcome.pairs:
        for side in ("utterance_speaker", "response_speaker"):
            pair[side] = "ann-of-cleves" if pair[side] == "ann" else pair[side]
        pair["dialogue"] = "dialogue-seven" if pair["dialogue"] == "d7" else pair["dialogue"]
    home.ingest(tmp_path / "log.jsonl")
    return outcome.pairs


def speaks(pair, name):
    return name in (pair["utterance_speaker"], pair["response_speaker"])


def delete(home, *arguments):
    return home("log", "delete", "chat", *arguments, "--json")


def test_exactly_the_named_dialogues_and_speakers_go(home, tmp_path):
    pairs = made(home, tmp_path)
    removed = delete(home, "--speaker", "ann-of-cleves", "--dialogue", "dialogue-seven", "--dialogue", "nobody's").json
    left = [p for p in pairs if not speaks(p, "ann-of-cleves") and p["dialogue"] != "dialogue-seven"]
    assert stored(home.open()) == left
    assert removed == {
        "log": "chat",
        "pairs": len(pairs) - len(left),
        "pairs_left": len(left),
        "dialogues": {"dialogue-seven": sum(p["dialogue"] == "dialogue-seven" for p in pairs), "nobody's": 0},
        "speakers": {"ann-of-cleves": sum(speaks(p, "ann-of-cleves") for p in pairs)},
    }
    manifest = home.open().manifest
    assert dict(manifest.totals) == totals(left)
    assert dict(manifest.removed) == {"pairs": len(pairs) - len(left)}
    assert home("log", "verify", "chat").code == 0


@pytest.mark.parametrize("whole", [False, True])
def test_what_encoders_keep_of_deleted_texts_goes_with_them(home, tmp_path, whole):
    pairs = made(home, tmp_path)
    texts = {p[side] for p in pairs for side in ("utterance", "response")}
    gone = {p[side] for p in pairs if speaks(p, "ann-of-cleves") or whole for side in ("utterance", "response")}
    keep_texts(home.path / "cache", texts)
    delete(home, *(("--whole", "--yes") if whole else ("--speaker", "ann-of-cleves")))
    assert kept_texts(home.path / "cache", texts) == texts - gone


def test_untouched_parts_stay_as_they_are(home, tmp_path):
    pairs = made(home, tmp_path)
    before = home.files()
    delete(home, "--dialogue", pairs[0]["dialogue"])
    after = home.files()
    same = [name for name in before if name != "manifest.json" and after.get(name) == before[name]]
    assert len(same) == len(before) - 2
    assert sorted(set(after) - set(before)) == ["part-00001.r1.parquet"]


def test_no_file_of_the_log_holds_the_names_of_the_erased(home, tmp_path):
    made(home, tmp_path)
    assert b"ann-of-cleves" in b"".join(home.files().values())
    delete(home, "--speaker", "ann-of-cleves", "--dialogue", "dialogue-seven")
    everything = b"".join(p.read_bytes() for p in home.path.rglob("*") if p.is_file())
    assert b"ann-of-cleves" not in everything
    assert b"dialogue-seven" not in everything


def test_what_a_stopped_ingest_had_staged_of_them_goes_too(home, tmp_path):
    pairs = made(home, tmp_path)
    data = dialogue_log(5, 60, prefix="other")[0].replace(b'"ann"', b'"ann-of-cleves"')
    (tmp_path / "more.jsonl").write_bytes(data)

    class Stops(Silent):
        def stage(self, name, total=None, unit=""):
            if name == "publishing":
                raise KeyboardInterrupt

    order = IngestOrder(sources=(str(tmp_path / "more.jsonl"),), log="chat")
    with pytest.raises(KeyboardInterrupt):
        ingesting.ingest(order, home.logs, Stops())
    assert list(home.logs.glob("chat/.staging-*/pairs-*"))
    delete(home, "--speaker", "ann-of-cleves")
    assert b"ann-of-cleves" not in b"".join(home.files().values())
    home.ingest(tmp_path / "more.jsonl")
    assert stored(home.open())[: len(pairs)] != pairs
    assert not any(speaks(p, "ann-of-cleves") for p in stored(home.open()))


def test_the_erased_stay_out_at_the_next_ingest_under_any_other_content(home, tmp_path):
    pairs = made(home, tmp_path)
    left = [p for p in pairs if not speaks(p, "ann-of-cleves") and p["dialogue"] != "dialogue-seven"]
    delete(home, "--speaker", "ann-of-cleves", "--dialogue", "dialogue-seven")
    (tmp_path / "again.jsonl").write_bytes((tmp_path / "log.jsonl").read_bytes() + b"\n")
    report = home.ingest(tmp_path / "again.jsonl", "--rejects", tmp_path / "out").json
    assert stored(home.open()) == left
    assert report["pairs_added"] == 0
    rejected = [orjson.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    assert sum(one["reason"] == "erased" for one in rejected) == report["counts"]["dropped:erased"]
    assert report["counts"]["dropped:erased"] > 0
    assert not any(b"ann-of-cleves" in data for data in home.files().values())


def test_erased_dialogues_of_message_trees_stay_out_too(home, tmp_path):
    rng = random.Random(3)
    messages = [message(f"m{n}", f"m{n - rng.randint(1, n % 8)}" if n % 8 else None) for n in range(80)]
    lines = b"\n".join(one.line for one in messages)
    (tmp_path / "m.jsonl").write_bytes(lines)
    home.ingest(tmp_path / "m.jsonl")
    before = stored(home.open())
    assert delete(home, "--dialogue", "m16").json["dialogues"] == {"m16": 7}
    (tmp_path / "again.jsonl").write_bytes(lines + b"\n")
    report = home.ingest(tmp_path / "again.jsonl", "--rejects", tmp_path / "out").json
    assert stored(home.open()) == [pair for pair in before if pair["dialogue"] != "m16"]
    assert report["counts"]["trees:erased"] == 7
    rejected = [orjson.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
    assert [(one["line"], one["position"]) for one in rejected if one["reason"] == "erased"] == [
        (n + 1, f"m{n}") for n in range(17, 24)
    ]


def test_deleting_everything_leaves_an_empty_log_that_lives_on(home, tmp_path):
    made(home, tmp_path, count=20)
    names = {name for p in stored(home.open()) for name in (p["utterance_speaker"], p["response_speaker"])}
    (tmp_path / "names").write_text("\n".join(sorted(names)))
    assert delete(home, "--speakers", tmp_path / "names").json["pairs_left"] == 0
    assert set(home.files()) == {"manifest.json"}
    for command in (("show",), ("sample",), ("stats",), ("verify",), ("shared",)):
        assert home("log", *command, "chat").code == 0
    assert home("log", "sample", "chat", "--json").json == {"pairs": []}
    assert home("log", "stats", "chat", "--json").json["pairs"] == 0
    again = (tmp_path / "log.jsonl").read_bytes() + b"\n"
    (tmp_path / "again.jsonl").write_bytes(again)
    assert home.ingest(tmp_path / "again.jsonl").json["pairs_added"] == 0
    (tmp_path / "new.jsonl").write_bytes(b'{"id": "x", "turns": ["who is there", "only me"]}\n')
    number = home.open().manifest.next_part
    assert home.ingest(tmp_path / "new.jsonl").json["totals"]["pairs"] == 1
    assert [part.file for part in home.open().manifest.parts] == [f"part-{number:05}.parquet"]
    assert number > 1  # numbers of parts that are gone are not used again


def test_a_name_with_no_pairs_is_kept_out_from_now_on(home, tmp_path):
    made(home, tmp_path, count=10)
    assert delete(home, "--speaker", "zoe").json["speakers"] == {"zoe": 0}
    rows = [{"id": "z", "turns": [{"text": t, "speaker": "zoe"} for t in ("one two", "three four")]}]
    (tmp_path / "z.jsonl").write_bytes(orjson.dumps(rows[0]) + b"\n")
    assert home.ingest(tmp_path / "z.jsonl").json["counts"]["dropped:erased"] == 2


@pytest.mark.parametrize("how", [("--dialogue", "dialogue-seven"), ("--whole", "--yes")])
def test_stopped_trainings_that_hold_its_texts_go_with_it_and_are_told(home, tmp_path, how):
    made(home, tmp_path)
    folders = {}
    for name, log in (("mine", "chat"), ("theirs", "other")):
        folders[name] = home.path / "cache" / f"rater-{name}-0123456789ab"
        folders[name].mkdir(parents=True)
        (folders[name] / "shared.arrow").write_bytes(b"what was said")
        (folders[name] / "order.json").write_bytes(orjson.dumps({"name": name, "logs": [log], "more_texts": []}))
    told = home("log", "delete", "chat", *how).err
    assert "stopped trainings that had texts of it were removed: mine" in told
    assert [folder.exists() for folder in folders.values()] == [False, True]


@pytest.mark.parametrize("damage", ["none", "part", "manifest"])
def test_a_whole_log_can_be_deleted_even_when_it_is_damaged(home, tmp_path, damage):
    pairs = made(home, tmp_path, count=10)
    if damage == "part":
        home.open().paths[0].write_bytes(b"x")
    if damage == "manifest":
        (home.logs / "chat/manifest.json").write_bytes(b"{")
    result = home("log", "delete", "chat", "--whole", "--yes", "--json")
    assert result.json == {"log": "chat", "pairs": 0 if damage == "manifest" else len(pairs)}
    assert list(home.logs.iterdir()) == []
    assert home.ingest(tmp_path / "log.jsonl").json["pairs_added"] == len(pairs)
    assert home("log", "delete", "other", "--whole", "--yes").code == 3
