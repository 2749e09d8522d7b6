"""`refaug score cite`: score files, signatures and frozen sets, with versions that are here, removed, or unknown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from integration.conftest import Home

from refaug.core.artefacts.removals import read_removal
from refaug.core.home import Settings
from refaug.core.version import VERSION
from refaug.metrics.signature import Signature

BOTH = ("--index", "chat", "--rater", "tiny", "--threads", "1")
NO_INTERVALS = ("--draws", "0", "--json")


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    rows = [
        {"id": "tea", "utterance": "where do you buy tea in autumn", "references": ["at the market"]},
        {"id": "bread", "utterance": "who sells you bread at noon", "references": ["near the mill i think"]},
    ]
    path.write_bytes(b"".join(orjson.dumps({**row, "replies": {"a": "at the mill"}}) + b"\n" for row in rows))
    return path


def test_a_score_file_a_signature_and_a_set_are_cited(ready: Home, items: Path, tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    scored_by_two = ready("score", items, *BOTH, "-k", "5", "-m", "upsilon-bleu", "-m", "chrf", *NO_INTERVALS)
    file.write_text(scored_by_two.out)
    weighted, plain = scored_by_two.json["scores"]
    cited = ready("score", "cite", file, "--json").json
    of_weighted, of_plain = cited["citations"]
    assert (of_weighted["signature"], of_plain["signature"]) == (weighted["signature_full"], plain["signature_full"])
    assert [version["state"] for version in of_weighted["versions"]] == ["here", "here"]
    fields = Signature.parse(weighted["signature_full"]).settings
    assert [version["version"] for version in of_weighted["versions"]] == [fields["index"], fields["rater"]]
    assert (of_plain["versions"], of_weighted["notes"], of_plain["notes"]) == ([], [], [])
    sentence = of_weighted["sentence"]
    assert sentence.startswith("Replies are scored by upsilon-bleu (Tsuta et al., 2020; Galley et al., 2015; Papineni")
    for part in (fields["index"].partition("#")[0], fields["rater"].partition("#")[0], f"refaug {VERSION}", "5 refer"):
        assert part in sentence
    entries = set(re.findall(r"^@\w+\{([^,]+),$", cited["bibtex"], re.MULTILINE))
    assert entries == {*of_weighted["papers"], *of_plain["papers"], f"refaug-{VERSION}"}
    printed = ready("score", "cite", file).out
    assert [line in printed for line in (sentence, f"  signature: {weighted['signature_full']}")] == [True, True]
    assert ready("score", "cite", file, "--bibtex").out == cited["bibtex"] + "\n"
    assert ready("score", "cite", weighted["signature_full"], "--json").json["citations"] == [of_weighted]

    frozen = ready("sets", "freeze", items, *BOTH, "--purpose", "test", "--json").json["id"]
    (of_set,) = ready("score", "cite", frozen[:8], "--json").json["citations"]
    assert (of_set["set"], [version["state"] for version in of_set["versions"]]) == (frozen, ["here", "here"])
    assert f"frozen reference set {frozen} (for test, " in of_set["sentence"]
    file.write_text(ready("sets", "score", frozen, items, "-m", "upsilon-bleu", *NO_INTERVALS).out)
    (against,) = ready("score", "cite", file, "--json").json["citations"]
    assert (against["set"], f"against the frozen reference set {frozen}" in against["sentence"]) == (frozen, True)
    ready("sets", "withdraw", frozen, "--reason", "a typing error")
    assert "withdrawn" in ready("score", "cite", frozen).out


def test_a_score_from_a_version_that_is_gone_is_cited_with_its_removal(
    ready: Home, items: Path, tmp_path: Path
) -> None:
    file = tmp_path / "scores.json"
    file.write_text(ready("score", items, *BOTH, "-m", "upsilon-bleu", *NO_INTERVALS).out)
    before = ready("score", "cite", file, "--json").json
    assert ready("artefacts", "remove", "index", "chat", "--yes").code == 0
    removal = read_removal(Settings(home=ready.path).home / "indexes", *version_in(before, 0))
    cited = ready("score", "cite", file, "--json").json
    (citation,) = cited["citations"]
    assert removal is not None
    assert citation["versions"][0] == {
        **before["citations"][0]["versions"][0],
        "state": "removed",
        "removed_at": removal.at,
        "purpose": removal.purpose,
    }
    assert [f"was removed at {removal.at}" in note for note in citation["notes"]] == [True]
    assert (citation["sentence"], cited["bibtex"]) == (before["citations"][0]["sentence"], before["bibtex"])
    elsewhere = file.read_text().replace("chat@20", "chat@10").replace("tiny@", "../etc@")
    file.write_text(elsewhere)
    (citation,) = ready("score", "cite", file, "--json").json["citations"]
    assert citation["notes"][0] == f"{file} was changed after it was written: its seal does not fit"
    assert [version["state"] for version in citation["versions"]] == ["unknown", "unknown"]


def version_in(cited: dict[str, Any], place: int) -> tuple[str, str]:
    name, _, version = cited["citations"][0]["versions"][place]["version"].partition("#")[0].partition("@")
    return name, version


def test_what_cannot_be_cited_is_refused(ready: Home, tmp_path: Path) -> None:
    for cited, code, said in (
        ("no-such-file.json", 3, "no such file"),
        (tmp_path, 3, "not a regular file"),
        ("/dev/zero", 3, "a device"),
        ("0123456789abcdef", 3, "there is no reference set 0123456789abcdef"),
        ("bleu|n:2", 3, "is not a signature"),
    ):
        refused = ready("score", "cite", cited)
        assert (refused.code, said in refused.err) == (code, True), refused.err
    assert ready("score", "cite", "bleu|n:2|refaug:0.1.0", "--json", "--bibtex").code == 2
    later = ready("score", "cite", "of-a-later-release|n:2|refaug:9.0.0")
    assert (later.code, "has no metric of-a-later-release" in later.out) == (0, True)
