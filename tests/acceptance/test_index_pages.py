"""The pages about vectors, indexes and artefacts do what they show, and their tables are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from acceptance.examples import ROOT, run, whole

from refaug.indexer.bm25.scores import Bm25Settings
from refaug.indexer.building.plan import EXACT_BELOW
from refaug.indexer.building.recall import AT, NEIGHBOURS, QUERIES
from refaug.indexer.columns import ROWS_A_BATCH
from refaug.indexer.manifest import ErasedKeys, IndexManifest, LogState, RecallCheck, SegmentInfo, VectorSource
from refaug.indexer.nearest.index_kinds import AnnKind
from refaug.indexer.search.ranking import ExclusionReason
from refaug.indexer.search.search_settings import SearchSettings
from refaug.indexer.vectors.sentence_vectors import SentenceSettings

DOCS = ROOT / "docs"


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text("utf-8")


def table(page: str, start: str) -> list[list[str]]:
    """The body of the first table after some text of a page."""
    found = re.search(r"^\|[^\n]*\|\n\|[-| ]+\|\n((?:\|[^\n]*\|\n)*)", text_of(page).split(start, 1)[1], re.MULTILINE)
    assert found is not None, f"{page}.md has no table after {start!r}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]


def codes(cell: str) -> list[str]:
    """Everything in a cell that is inline code."""
    return re.findall(r"`([^`]+)`", cell)


# ── examples ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("page", ["vectors", "artefacts"])
def test_every_example_of_the_page_gives_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(DOCS / f"{page}.md"), tmp_path, monkeypatch, capfd)


@pytest.mark.slow
def test_examples_of_the_index_page_give_what_it_shows_for_any_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = run(whole(DOCS / "indexes.md"), tmp_path, monkeypatch, capfd)
    answers = [
        runner.answer(f"refaug index search demo --items demo-items.jsonl --threads {threads}") for threads in (1, 3)
    ]
    assert answers[0] == answers[1]
    assert answers[0][1].count("\n") == 200


@pytest.mark.slow
def test_examples_of_the_format_page_give_its_output_and_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(whole(DOCS / "internals" / "index-format.md"), tmp_path, monkeypatch, capfd)
    version = max((tmp_path / "home" / "indexes" / "demo").glob("*/manifest.json")).parent
    manifest = json.loads((version / "manifest.json").read_text("utf-8"))
    listed = {
        name: (row[1], row[2]) for row in table("internals/index-format", "<!-- segment -->") for name in codes(row[0])
    }
    not_here = {"vectors.npy", "lengths.npy", "quick.npy", "quick_steps.npy", "quick_bases.npy"}
    assert {path.name for path in (version / "segments/0").iterdir()} == {*listed, "bm25"} - not_here
    assert {path.name for path in (version / "segments/1").iterdir()} == {*listed} - not_here
    for name, (kind, rows) in listed.items():
        if (version / "segments/0" / name).exists():
            assert sizes(version / "segments/0" / name, manifest["segments"][0]) in ((codes(kind), rows), None), name
    assert {name for row in table("internals/index-format", "<!-- bm25 -->") for name in codes(row[0])} == {
        path.name for path in (version / "segments/0/bm25").iterdir()
    }
    of_manifest = table("internals/index-format", "<!-- manifest -->")
    only_compacted = {"trained_utterances"}
    assert {name for row in of_manifest for name in codes(row[0])} - only_compacted == set(manifest)
    whole_table = {name for row in of_manifest for cell in row for name in codes(cell)}
    kinds = (
        IndexManifest,
        LogState,
        VectorSource,
        SegmentInfo,
        RecallCheck,
        ErasedKeys,
        SentenceSettings,
        Bm25Settings,
    )
    assert {field.name for kind in kinds for field in fields(kind)} - whole_table == set()
    others = [path.name for path in version.iterdir() if path.name != "segments"]
    assert [name for name in others if name not in text_of("internals/index-format")] == []


def sizes(path: Path, segment: dict[str, Any]) -> tuple[list[str], str] | None:
    """A file's type and what it has a row for, in the words of the page; None where that is not told by a number."""
    if path.suffix == ".faiss":
        return None
    if path.suffix == ".arrow":
        opened = pa.ipc.open_file(path)
        kind, count = [", ".join(f"{field.name}: {field.type}" for field in opened.schema)], opened.read_all().num_rows
    else:
        array = np.load(path)
        if array.ndim != 1 or "tokens" in path.stem:
            return None
        kind, count = [array.dtype.name], len(array)
    names = {
        segment["utterances"]: "utterance",
        segment["utterances"] + 1: "utterance, and one",
        segment["pairs"]: "pair",
        segment["pairs"] + 1: "pair, and one",
        segment["occurrences"]: "occurrence",
        segment["extra_words"]: "word without a vector",
    }
    assert len(names) == 6
    return kind, "vector" if path.name == "vector_rows.npy" and count == segment["with_vector"] else names[count]


# ── tables and numbers ────────────────────────────────────────────────────────────────────────────────────────────


def test_every_reason_is_on_the_page_in_the_words_in_which_it_is_counted() -> None:
    listed = [codes(row[0])[0] for row in table("indexes", "<!-- reasons -->")]
    assert listed == [reason.name.lower() for reason in ExclusionReason if reason]


def test_the_bytes_of_a_vector_are_those_of_each_kind() -> None:
    for row in table("indexes", "## Kinds of index"):
        kind = AnnKind.of(codes(row[0])[0], 200)
        assert int(row[1].removesuffix(" bytes").replace(",", "")) == kind.row_bytes + kind.reranking_bytes


NUMBERS = [
    ("indexes", f"the choice below {EXACT_BELOW:,} utterances"),
    ("indexes", f"`--check-queries` utterances ({QUERIES:,})"),
    ("indexes", f"as similar as the {AT}th exact one"),
    ("indexes", f"α = {SearchSettings().alpha} and ε = {SearchSettings().epsilon}"),
    ("indexes", f"k1 = {Bm25Settings().k1} and b = {Bm25Settings().b}"),
    ("indexes", f"both have {SearchSettings().near_tokens} tokens or more, and that {SearchSettings().near} of"),
    ("indexes", f"a = {SentenceSettings().sif_a}"),
    ("internals/index-format", f"batches of {ROWS_A_BATCH:,} rows"),
    ("internals/index-format", f"(queries, {NEIGHBOURS})"),
]


@pytest.mark.parametrize(("page", "said"), NUMBERS)
def test_a_number_on_the_page_is_that_of_the_code(page: str, said: str) -> None:
    assert said in text_of(page)
