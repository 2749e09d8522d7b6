"""`refaug score verify` as users call it: what holds, what differs, what is missing, and which file is none of ours."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from encoders import TinyEncoder, write_encoder
from engines import TEXTS, home_with_versions
from indexes import build

from refaug.cli import main as cli
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.indexer.index_folders import Places
from refaug.metrics.signature import Signature
from refaug.scoring.score_files.score_file import ScoreFile, sealed

BOTH = ("--index", "chat", "--rater", "base", "--threads", "1")
HOLDS, DIFFERS, MISSING, UNCHECKED = "holds", "differs", "missing", "unchecked"


def lines_of(count: int = 8) -> list[dict[str, Any]]:
    drawn = random.Random(1)
    return [
        {
            "id": f"d{number}",
            "utterance": drawn.choice(TEXTS),
            "references": [drawn.choice(TEXTS)],
            "replies": {"a": drawn.choice(TEXTS), "b": drawn.choice(TEXTS)},
        }
        for number in range(count)
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@dataclass
class Desk:
    """A folder with a home and an item file, and the command that works there."""

    folder: Path
    capfdbinary: pytest.CaptureFixture[bytes]

    @property
    def home(self) -> Settings:
        return Settings(home=self.folder / "home")

    def run(self, *arguments: object) -> tuple[int, str, str]:
        self.capfdbinary.readouterr()
        with chdir(self.folder):
            code = cli.main(["--quiet", "--home", "home", *map(str, arguments)])
        out, err = self.capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    def score(self, *arguments: object, name: str = "scores.json") -> dict[str, Any]:
        """Write a score file, and return what is in it."""
        command = arguments if arguments[0] == "sets" else ("score", *arguments)
        code, out, err = self.run(*command, "--json")
        assert code == 0, err
        (self.folder / name).write_text(out)
        document: dict[str, Any] = json.loads(out)
        return document

    def write(self, document: object, name: str = "scores.json") -> None:
        (self.folder / name).write_text(json.dumps(document))

    def parts(self, *arguments: object) -> tuple[int, list[dict[str, Any]]]:
        """Verify, and return the exit code and the parts."""
        code, out, err = self.run("score", "verify", *(arguments or ("scores.json",)), "--threads", "1", "--json")
        assert out, err
        document = json.loads(out)
        assert (document["verdict"], code) in ((HOLDS, 0), (DIFFERS, 6), (MISSING, 3))
        return code, document["parts"]

    def differing(self, *arguments: object, state: str = DIFFERS) -> dict[str, str]:
        """Return the messages of the parts in a state, by part; the verdict is that of the state."""
        code, parts = self.parts(*arguments)
        assert code == {DIFFERS: 6, MISSING: 3, UNCHECKED: 0}[state]
        return {part["part"]: part["message"] for part in parts if part["state"] == state}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("verified")
    home_with_versions(folder)
    write(folder / "items.jsonl", lines_of())
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Desk:
    shutil.copytree(made, tmp_path / "desk")
    return Desk(tmp_path / "desk", capfdbinary)


def frozen(desk: Desk) -> str:
    code, out, err = desk.run("sets", "freeze", "items.jsonl", *BOTH, "--purpose", "test", "--json")
    assert code == 0, err
    return str(json.loads(out)["id"])


# ── what holds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_scores_with_index_and_rater_hold_part_by_part(desk: Desk) -> None:
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu", "-m", "bleu", "--draws", "30", "--baseline", "a")
    code, parts = desk.parts()
    assert (code, {part["state"] for part in parts}) == (0, {HOLDS})
    assert [(part.get("metric"), part["part"]) for part in parts] == [
        (None, "file"),
        (None, "software"),
        (None, "index"),
        (None, "vectors"),
        (None, "log"),
        (None, "rater"),
        (None, "items"),
        (None, "data"),
        (None, "utterances"),
        (None, "replies"),
        *(("upsilon-bleu", part) for part in ("metric parameters", "libraries", "retrieval and rating", "references")),
        *(("upsilon-bleu", part) for part in ("reply scores", "corpus scores", "intervals", "comparisons")),
        *(("bleu", part) for part in ("metric parameters", "libraries", "references", "reply scores")),
        *(("bleu", part) for part in ("corpus scores", "intervals", "comparisons")),
    ]
    code, out, _ = desk.run("score", "verify", "scores.json", "items.jsonl")
    assert (code, out.splitlines()[-1]) == (0, f"reproduced: {len(parts)} parts hold")


@pytest.mark.parametrize(
    "options",
    [
        ("items.jsonl", "-m", "bleu", "-m", "chrf", "--percent", "--level", "system"),
        ("items.jsonl", "-m", "multi-bleu", "--explain", "--draws", "0"),
        ("items.jsonl", "-m", "rater", "--rater", "base", "--threads", "1", "--level", "corpus"),
        ("--replies", "a=a.txt", "--replies", "b.txt", "--references", "gold.txt", "-m", "bleu"),
    ],
)
def test_every_form_of_scores_holds(desk: Desk, options: tuple[str, ...]) -> None:
    for name in ("a.txt", "b.txt", "gold.txt"):
        (desk.folder / name).write_text("".join(f"{text}\n" for text in random.Random(name).sample(TEXTS, 4)))
    desk.score(*options)
    code, parts = desk.parts()
    assert (code, [part for part in parts if part["state"] != HOLDS]) == (0, [])


def test_scores_of_weighted_items_and_of_a_frozen_set_need_neither_index_nor_rater(desk: Desk) -> None:
    _, weighted, _ = desk.run("sets", "references", "items.jsonl", *BOTH)
    (desk.folder / "weighted.jsonl").write_text(weighted)
    desk.score("weighted.jsonl", "-m", "upsilon-bleu", name="of-items.json")
    desk.score("sets", "score", frozen(desk), "items.jsonl", "-m", "upsilon-bleu", name="of-set.json")
    for name in ("of-items.json", "of-set.json"):
        code, parts = desk.parts(name)
        assert (code, {part["state"] for part in parts}) == (0, {HOLDS})
    assert "frozen set" in [part["part"] for part in parts]
    for kind in ("index", "rater"):
        for artefact in artefact_stores(desk.home)[kind].names():
            artefact_stores(desk.home)[kind].delete(artefact)
    for name in ("of-items.json", "of-set.json"):
        absent = desk.differing(name, state=UNCHECKED)
        assert sorted(absent) == ["index", "rater"]
        assert "was removed at" in absent["index"]
        assert "the one that made the scores" in absent["rater"]


def test_an_index_of_an_encoder_needs_the_same_encoder(desk: Desk) -> None:
    folder = write_encoder(desk.folder / "encoder", weights=TinyEncoder.seeded())
    build(Places.under(desk.home.home), "coded", logs=("chat",), vectors=None, encoder=folder)
    desk.score("items.jsonl", "--index", "coded", "--rater", "base", "--threads", "1", "-m", "upsilon-bleu")
    code, parts = desk.parts()
    assert (code, [part["part"] for part in parts][2:5]) == (0, ["index", "encoder", "log"])
    write_encoder(folder, weights=TinyEncoder.seeded(8))
    assert "the index was built with" in desk.differing()["encoder"]
    shutil.rmtree(folder)
    assert list(desk.differing(state=MISSING)) == ["encoder"]


def test_a_file_that_was_moved_with_its_items_still_names_them(desk: Desk) -> None:
    desk.score("items.jsonl", "-m", "bleu")
    (desk.folder / "kept").mkdir()
    for name in ("scores.json", "items.jsonl"):
        (desk.folder / name).rename(desk.folder / "kept" / name)
    assert desk.parts("kept/scores.json")[0] == 0


def test_scores_of_items_made_in_several_ways_hold(desk: Desk) -> None:
    lines = []
    for options in (("-k", "3"), ("-k", "5")):
        _, weighted, _ = desk.run("sets", "references", "items.jsonl", *BOTH, *options)
        lines.append([json.loads(line) for line in weighted.splitlines()])
    write(desk.folder / "mixed.jsonl", [*lines[0][:4], *lines[1][4:]])
    document = desk.score("mixed.jsonl", "-m", "upsilon-bleu")
    assert "|references:mixed#" in document["scores"][0]["signature"]
    code, parts = desk.parts()
    assert (code, [part for part in parts if part["state"] != HOLDS]) == (0, [])


def test_another_index_under_the_name_differs_though_weighted_items_need_none(desk: Desk) -> None:
    _, weighted, _ = desk.run("sets", "references", "items.jsonl", *BOTH)
    (desk.folder / "weighted.jsonl").write_text(weighted)
    desk.score("weighted.jsonl", "-m", "upsilon-bleu")
    folder = desk.home.home / "indexes" / "chat"
    first, second = artefact_stores(desk.home)["index"].versions("chat")
    shutil.rmtree(folder / first)
    shutil.copytree(folder / second, folder / first)
    assert list(desk.differing()) == ["index"]
    assert "reply scores" in [part["part"] for part in desk.parts()[1] if part["state"] == HOLDS]


# ── what differs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def with_short_signatures(document: dict[str, Any]) -> dict[str, Any]:
    """Return scores whose short signatures are those of their full ones."""
    for scores in document["scores"]:
        scores["signature"] = Signature.parse(scores["signature_full"]).short
    return document


def test_one_byte_of_the_rater(desk: Desk) -> None:
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu")
    path = next((desk.home.home / "raters").glob("base/*.1/weights.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    differing = desk.differing()
    assert list(differing) == ["rater"]
    assert "is damaged" in differing["rater"]
    assert "weights.safetensors has SHA-256" in differing["rater"]
    assert "scores" in [part["part"] for part in desk.parts()[1] if part["state"] == UNCHECKED]


def test_another_version_under_the_name(desk: Desk) -> None:
    first, second = artefact_stores(desk.home)["index"].versions("chat")
    desk.score("items.jsonl", "--index", f"chat@{first}", *BOTH[2:], "-m", "upsilon-bleu")
    folder = desk.home.home / "indexes" / "chat"
    shutil.rmtree(folder / first)
    shutil.copytree(folder / second, folder / first)
    differing = desk.differing()
    assert list(differing) == ["index"]
    assert f"chat@{first} is another version of that name: its content is" in differing["index"]


def test_what_a_metric_does_not_need_does_not_keep_it_from_being_verified(desk: Desk) -> None:
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu", "-m", "bleu", "-m", "chrf", "--draws", "20")
    path = next((desk.home.home / "raters").glob("base/*.1/weights.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    code, parts = desk.parts()
    assert (code, [part["part"] for part in parts if part["state"] == DIFFERS]) == (6, ["rater"])
    unchecked = [(part["metric"], part["message"]) for part in parts if part["state"] == UNCHECKED]
    assert unchecked == [("upsilon-bleu", "not computed again: the rater is not at hand as it was")]
    compared = ["reply scores", "corpus scores", "intervals"]
    for metric in ("bleu", "chrf"):
        of_metric = {part["part"]: part["state"] for part in parts if part.get("metric") == metric}
        assert [of_metric[part] for part in compared] == [HOLDS] * 3
    document = json.loads((desk.folder / "scores.json").read_text())
    document["scores"][1]["systems"]["a"]["mean"] += 0.25
    desk.write(sealed(document))
    differing = desk.differing()
    assert list(differing) == ["rater", "corpus scores"]
    assert differing["corpus scores"].startswith("a.mean: ")


def test_a_version_that_was_published_in_between_is_named_and_the_scores_hold(desk: Desk) -> None:
    versions = artefact_stores(desk.home)["index"]
    first, second = versions.versions("chat")
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu")
    _, before = desk.parts()
    versions.publish("chat", second)
    code, parts = desk.parts()
    assert (code, {part["state"] for part in parts}) == (0, {HOLDS})
    changed = [(part["part"], part["message"]) for part, old in zip(parts, before, strict=True) if part != old]
    [of_index] = [part["message"] for part in before if part["part"] == "index"]
    assert changed == [("index", f"{of_index}; published now is chat@{second}")]
    assert versions.gc("chat", 1) == [first]
    missing = desk.differing(state=MISSING)
    assert list(missing) == ["index"]
    assert missing["index"].endswith(f"; published now is chat@{second}")


def test_a_version_that_is_gone_is_missing_and_the_note_of_its_removal_told(desk: Desk) -> None:
    versions = artefact_stores(desk.home)["index"]
    first, second = versions.versions("chat")
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu")
    versions.publish("chat", second)
    assert versions.gc("chat", 1) == [first]
    missing = desk.differing(state=MISSING)
    assert list(missing) == ["index"]
    assert f"index chat@{first} was removed at 20" in missing["index"]
    assert "(old versions were removed): the one that made the scores" in missing["index"]
    shutil.copytree(versions.folder("chat", second), versions.folder("chat", first))
    reused = desk.differing()["index"]
    assert "is another version of that name" in reused
    assert "was removed at" in reused


def test_without_index_rater_and_vectors_all_three_are_missing(desk: Desk) -> None:
    desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu")
    for folder in (desk.home.home / "indexes", desk.home.home / "raters", desk.home.home / "vectors"):
        shutil.rmtree(folder)
    missing = desk.differing(state=MISSING)
    assert list(missing) == ["index", "vectors", "rater"]
    assert missing["index"].startswith("no index 'chat' in home/indexes; the signature names chat@")


def test_a_reference_removed_from_weighted_items_is_named_by_its_item(desk: Desk) -> None:
    _, weighted, _ = desk.run("sets", "references", "items.jsonl", *BOTH, "-k", "5")
    lines = [json.loads(line) for line in weighted.splitlines()]
    write(desk.folder / "weighted.jsonl", lines)
    desk.score("weighted.jsonl", "-m", "upsilon-bleu", "-m", "bleu")
    del lines[2]["references"][-1]
    differing = desk.differing("scores.json", write(desk.folder / "fewer.jsonl", lines))
    assert (
        "item d2: 6 references in the file, 5 now (1 gold, 5 retrieved in the file, 1 gold, 4 retrieved now)"
        in (differing["references"])
    )
    assert set(differing) <= {"references", "reply scores", "corpus scores", "intervals"}


def test_a_frozen_set_that_lacks_a_reference_is_not_what_was_frozen(desk: Desk) -> None:
    name = frozen(desk)
    desk.score("sets", "score", name, "items.jsonl", "-m", "upsilon-bleu")
    path = desk.home.reference_sets / f"{name}.jsonl.zst"
    remove_reference(path)
    differing = desk.differing()
    assert list(differing) == ["frozen set"]
    assert differing["frozen set"].startswith(f"{name} is not what was frozen: ")
    assert "its items were altered" in differing["frozen set"]
    path.unlink()
    assert list(desk.differing(state=MISSING)) == ["frozen set"]


def remove_reference(path: Path) -> None:
    """Write the file of a set again without the last reference of its first item."""
    import zstandard  # noqa: PLC0415

    with zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True) as stream:
        manifest, first, *lines = stream.read().splitlines()
    item = json.loads(first)
    del item["references"][-1]
    changed = b"\n".join([json.dumps(item).encode(), *lines]) + b"\n"
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(compress(manifest + b"\n") + compress(changed))


def change_reply(lines: list[dict[str, Any]]) -> None:
    lines[3]["replies"]["b"] = "we like blue boats"


def change_gold(lines: list[dict[str, Any]]) -> None:
    lines[3]["references"] = ["we like blue boats"]


def drop_item(lines: list[dict[str, Any]]) -> None:
    del lines[3]


@pytest.mark.parametrize(
    ("change", "part", "message"),
    [
        (change_reply, "replies", "these replies are not those of the file"),
        (change_gold, "data", "these ids and golds are not those of the file"),
        (drop_item, "data", "these ids and golds are not those of the file; not given: d3"),
    ],
)
def test_other_items_are_told_from_those_of_the_file(
    desk: Desk, change: Callable[[list[dict[str, Any]]], None], part: str, message: str
) -> None:
    desk.score("items.jsonl", "-m", "bleu")
    lines = lines_of()
    change(lines)
    differing = desk.differing("scores.json", write(desk.folder / "others.jsonl", lines))
    assert differing[part].endswith(message)
    if change is change_reply:
        assert differing["reply scores"].startswith("b.replies[d3].")


def test_a_score_that_was_edited_breaks_the_seal_and_differs(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "0")
    document["scores"][0]["systems"]["a"]["mean"] += 0.25
    desk.write(document)
    differing = desk.differing()
    assert list(differing) == ["file", "corpus scores"]
    assert differing["file"] == "its content is not what was written: the seal does not fit"
    assert differing["corpus scores"].startswith("a.mean: ")


def test_another_release_and_another_parameter_are_named(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "0")
    line = document["scores"][0]["signature_full"]
    document["scores"][0]["signature_full"] = line.replace(f"refaug:{VERSION}", "refaug:0.0.9")
    desk.write(sealed(with_short_signatures(document)))
    assert desk.differing() == {"software": f"the scores were made by refaug 0.0.9; this is {VERSION}"}
    document["scores"][0]["signature_full"] = line.replace("tokenizer.:unicode ", "tokenizer.:unicode 1")
    desk.write(sealed(with_short_signatures(document)))
    assert list(desk.differing()) == ["libraries"]
    document["scores"][0]["signature_full"] = line.replace("bleu|n:2|", "bleu|n:3|")
    desk.write(sealed(with_short_signatures(document)))
    assert list(desk.differing()) == ["reply scores", "corpus scores"]


# ── what a file says of itself ────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_cannot_widen_its_own_tolerance(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "0")
    for system in document["scores"][0]["systems"].values():
        system["corpus"] = 99.9
    for scale in (1e12, -1, True, 0):
        document["scores"][0]["scale"] = scale
        desk.write(sealed(document))
        code, _, err = desk.run("score", "verify", "scores.json")
        assert (code, f"scores[0].scale: {scale!r}; 1 was expected, or 100 for per cent" in err) == (3, True), err
    document["scores"][0]["scale"] = 1
    desk.write(sealed(document))
    assert list(desk.differing()) == ["corpus scores"]


def test_a_short_signature_of_other_scores_differs(desk: Desk) -> None:
    document = desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu", "-m", "bleu", "--draws", "0")
    first, second = document["scores"]
    desk.write(sealed({**document, "scores": [{**first, "signature": second["signature"]}, second]}))
    assert list(desk.differing()) == ["signature"]


def test_what_was_removed_from_a_file_does_not_hold(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "30")
    scores = document["scores"][0]
    system = scores["systems"]["a"]
    desk.write(sealed({**document, "scores": [{**scores, "systems": {"b": scores["systems"]["b"]}}]}))
    assert desk.differing()["reply scores"] == "a: no scores in the file, replies now"
    desk.write(sealed({**document, "scores": [{**scores, "systems": {**scores["systems"], "a": {}}}]}))
    assert desk.differing()["reply scores"] == "a: no scores in the file, scores now"
    desk.write(sealed({**document, "scores": [{**scores, "systems": {"a": {}, "b": {}}}]}))
    assert desk.differing()["reply scores"].startswith("a: no scores in the file, scores now; b: no scores")
    system["interval"] = [5, 6]
    desk.write(sealed({**document, "resampling": {**document["resampling"], "draws": 0}}))
    assert desk.differing()["intervals"].startswith("a.interval: [5, 6] in the file, None now")
    system["interval"] = None
    removed = {field: content for field, content in sealed(document).items() if field not in ("checksum", "items")}
    desk.write(removed)
    code, parts = desk.parts()
    assert [part["part"] for part in parts if part["state"] == UNCHECKED] == ["items"]
    assert (code, parts[0]["state"], parts[0]["part"]) == (6, DIFFERS, "file")


@pytest.mark.parametrize(
    ("removed", "part", "words"),
    [
        (["corpus"], "corpus scores", "a.corpus: nothing in the file, "),
        (["mean"], "corpus scores", "a.mean: nothing in the file, "),
        (["corpus", "interval", "mean", "mean_interval"], "corpus scores", "a.corpus: nothing in the file, "),
        (["replies"], "reply scores", "a.replies: nothing in the file, "),
        (["interval", "mean_interval"], "intervals", "a.interval: nothing in the file, "),
        (["mean_interval"], "intervals", "a.mean_interval: nothing in the file, "),
    ],
)
def test_a_level_that_was_removed_from_all_systems_differs(
    desk: Desk, removed: list[str], part: str, words: str
) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "30")
    for system in document["scores"][0]["systems"].values():
        for field in removed:
            del system[field]
    desk.write(sealed(document))
    differing = desk.differing()
    assert differing[part].startswith(words)
    assert "; b." in differing[part]


def test_comparisons_that_were_removed_differ_where_the_file_names_its_baseline(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "30", "--baseline", "a")
    assert document["resampling"]["baseline"] == "a"
    held = dict(document)
    assert desk.parts()[0] == 0
    scores = document["scores"][0]
    assert list(scores["comparisons"]) == ["b"]
    for removed in ({}, None):
        left = {name: content for name, content in scores.items() if name != "comparisons"}
        desk.write(sealed({**held, "scores": [{**left, **({"comparisons": {}} if removed is not None else {})}]}))
        assert desk.differing() == {"comparisons": "comparisons.b: nothing in the file, one now"}
    desk.score("items.jsonl", "-m", "bleu", "--draws", "30", "--baseline", "a", "--level", "reply")
    assert desk.parts()[0] == 0


@pytest.mark.parametrize("level", ["reply", "corpus", "system"])
def test_a_file_of_one_level_says_so_and_holds(desk: Desk, level: str) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "30", "--level", level)
    assert document["level"] == level
    desk.write(document)
    assert desk.parts()[0] == 0
    desk.write(sealed({key: content for key, content in document.items() if key != "level"}))
    assert all("nothing in the file" in message for message in desk.differing().values())


def test_a_file_without_seal_and_format_differs_if_it_has_hashes_of_its_texts(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "0")
    del document["checksum"], document["format_version"]
    desk.write(document)
    assert desk.differing() == {
        "file": "its seal was removed: files with a format_version or hashes of their texts are written with one"
    }


def test_a_file_that_does_not_say_how_it_was_resampled_differs(desk: Desk) -> None:
    document = desk.score("items.jsonl", "-m", "bleu", "--draws", "30")
    desk.write(sealed({**document, "resampling": {"seed": 1}}))
    assert desk.differing() == {"scores": "resampling: draws, seed and confidence are not numbers"}


def test_evidence_that_was_altered_differs_though_the_references_agree(desk: Desk) -> None:
    document = desk.score("items.jsonl", *BOTH, "-m", "upsilon-bleu", "--draws", "0")
    document["evidence"]["d2"]["weights"][0] = 0.123
    desk.write(sealed(document))
    assert desk.differing()["references"].startswith("item d2: its weights differ by up to ")


def test_only_ratings_and_vectors_widen_the_tolerance(desk: Desk) -> None:
    unrated = ("--mode", "bm25-utterance", "--reference-weights", "one", "--parrot", "off")
    desk.score("items.jsonl", "--index", "chat", *unrated, "-m", "upsilon-bleu", "--draws", "0")
    messages = [part["message"] for part in desk.parts()[1] if part["part"] == "corpus scores"]
    assert messages == ["equal within 1e-09"]


# ── files that cannot be verified ─────────────────────────────────────────────────────────────────────────────────────


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def of_newer_format(content: bytes) -> bytes:
    return json.dumps({**json.loads(content), "format_version": 3}).encode()


def without_inputs(content: bytes) -> bytes:
    document = json.loads(content)
    del document["inputs"]
    return json.dumps(sealed(document)).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut, "it ends in the middle: it was cut off (line "),
        (of_newer_format, "its format is 3; this refaug reads up to 2"),
        (without_inputs, "scores.json does not name the items that were scored"),
        (lambda _: b"", "the file is empty"),
        (lambda _: b"bleu|n:2\nsystem  corpus\n", "it is not JSON (line 1, column 1"),
        (lambda _: b"[1]", "a JSON object was expected, not a list"),
        (lambda _: b'{"sets": [], "metrics": []}', "this is the result of refaug agreement"),
        (lambda _: b'{"stats": []}', "this is sums for combining, not scores"),
        (lambda _: b'{"scores": []}', "it has no scores"),
        (lambda _: b'{"scores": [{"systems": {"a": {}}}]}', "scores[0]: it has no signature_full"),
        (
            lambda _: b'{"scores": [{"signature_full": "bleu|n:2|refaug:1", "systems": {"a": {"values": []}}}]}',
            "short form",
        ),
    ],
)
def test_a_file_that_is_no_whole_score_file_is_refused(
    desk: Desk, change: Callable[[bytes], bytes], message: str
) -> None:
    desk.score("items.jsonl", "-m", "bleu", "--draws", "0")
    path = desk.folder / "scores.json"
    path.write_bytes(change(path.read_bytes()))
    code, out, err = desk.run("score", "verify", "scores.json")
    assert (code, out) == (3, "")
    assert message in err
    assert desk.run("score", "verify", "no-such.json")[0] == 3


# ── the seal ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_seal_survives_programs_that_read_and_write_the_file() -> None:
    document = {"scores": [{"signature_full": "bleu|n:2|refaug:1", "systems": {"a": {"corpus": 1.0, "mean": 0.1}}}]}
    written = sealed(document)
    assert ScoreFile.of(written, "x").is_sealed
    for again in (
        json.loads(json.dumps(written, indent=4, sort_keys=True)),
        json.loads(json.dumps(written).replace("1.0", "1")),
        {**written, "request_id": "abc", "inputs": {"items": ["moved.jsonl"]}},
    ):
        assert ScoreFile.of(again, "x").is_sealed
    assert ScoreFile.of({**written, "warnings": []}, "x").is_sealed is False
    assert ScoreFile.of(document, "x").is_sealed is None
