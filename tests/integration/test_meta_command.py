"""`refaug agreement` as its users call it: what is printed where, every option, every way to go wrong."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from refaug.cli import main as cli
from refaug.cli.command_tree import command_at
from refaug.cli.scores.meta import _short_names
from refaug.core.version import VERSION

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "home", "fast", "today", "never", "maybe", "we", "you", "go"]
DRAWS = ["--draws", "200"]


def rated_lines(contexts: int = 12, annotators: int = 3, seed: int = 0) -> list[dict[str, Any]]:
    """Items of three systems that copy less or more of two golds."""
    drawn = random.Random(seed)
    lines = []
    for number in range(contexts):
        golds = [" ".join(drawn.choices(WORDS, k=drawn.randint(4, 8))) for _ in range(2)]
        replies, ratings = {}, {}
        for system, share in (("weak", 0.2), ("fair", 0.5), ("good", 0.8)):
            kept = [word for word in golds[0].split() if drawn.random() < share]
            replies[system] = " ".join([*kept, *drawn.choices(WORDS, k=2), "oh"])
            ratings[system] = [min(5, max(1, round(len(kept) / 2 + drawn.gauss(2, 1)))) for _ in range(annotators)]
        lines.append({"id": f"c{number}", "references": golds, "replies": replies, "ratings": ratings})
    return lines


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return write(tmp_path / "chat.jsonl", rated_lines())


def printed(capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[str, str]:
    out, err = capfdbinary.readouterr()
    return out.decode(), err.decode()


def as_json(capfdbinary: pytest.CaptureFixture[bytes], *arguments: object) -> dict[str, Any]:
    assert cli.main(["agreement", *map(str, arguments), *([] if "--draws" in arguments else DRAWS), "--json"]) == 0
    document: dict[str, Any] = json.loads(printed(capfdbinary)[0])
    return document


def names_of(document: dict[str, Any]) -> list[str]:
    return [row["name"] for row in document["sets"][0]["rows"]]


# ── what is printed ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_go_to_stdout_and_stages_to_stderr(items: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["agreement", str(items), "-m", "bleu", "-m", "rouge-l", *DRAWS]) == 0
    out, err = printed(capfdbinary)
    titles = [
        "chat: agreement with the mean rating",
        "chat: p of each correlation",
        "chat: annotators with each other",
        "chat: correlation with each annotator",
        "chat: annotators by κ",
        "chat: system level, 3 systems, contexts centred",
        "chat: Spearman of the means of groups of replies",
    ]
    assert [out.index(title) for title in titles] == sorted(out.index(title) for title in titles)
    assert "assumes independent rows" in out
    assert "nan" not in out.lower()
    for stage in ("read: done", "score chat, bleu: done", "score chat, rouge-l: done", "bootstrap: done"):
        assert stage in err
        assert stage not in out


def test_first_table_has_a_row_for_each_metric_length_and_people(
    items: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    document = as_json(capfdbinary, items, "-m", "bleu", "-m", "ter")
    cli.main(["agreement", str(items), "-m", "bleu", "-m", "ter", *DRAWS])
    table = printed(capfdbinary)[0].split("agreement with the mean rating\n")[1].split("\n  ")[0].splitlines()
    assert table[0].split()[:2] == ["metric", "Spearman"]
    assert [line.split()[0] for line in table[1:]] == ["bleu", "ter", "length", "human"]
    assert "ter (turned)" in table[2]
    spearman = [f"{row['spearman']['value']:.3f}" for row in document["sets"][0]["rows"]]
    assert [value in line for value, line in zip(spearman, table[1:], strict=True)] == [True] * 4


def test_p_of_every_correlation_is_scipys(items: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    document = as_json(capfdbinary, items, "-m", "bleu")
    lines = rated_lines()
    lengths = [len(reply.split()) for line in lines for reply in line["replies"].values()]
    each = np.array([rated for line in lines for rated in line["ratings"].values()], dtype=float)
    length = next(row for row in document["sets"][0]["rows"] if row["name"] == "length")
    tests = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}
    expected = {kind: test(lengths, each.mean(axis=1).round(9)).pvalue for kind, test in tests.items()}
    assert length["p_independent"] == pytest.approx({**expected, "partial_spearman": None})
    for kind, name in (("spearman", "by_annotator"), ("pearson", "by_annotator_pearson")):
        found = {int(place): (one["value"], one["p"]) for place, one in length[name]["each"].items()}
        alone = {place: tests[kind](lengths, column) for place, column in enumerate(each.T)}
        assert found == {place: pytest.approx((one.statistic, one.pvalue)) for place, one in alone.items()}
        pairs = document["sets"][0]["annotators"]["pairs"][kind]
        between = {(a, b): tests[kind](each[:, a], each[:, b]) for a, b in ((0, 1), (0, 2), (1, 2))}
        assert {(one["first"], one["second"]): (one["value"], one["p"]) for one in pairs["each"]} == {
            pair: pytest.approx((one.statistic, one.pvalue)) for pair, one in between.items()
        }
        values = [one.statistic for one in between.values()]
        assert (pairs["mean"], pairs["min"], pairs["max"]) == pytest.approx((np.mean(values), min(values), max(values)))


def test_sets_with_files_of_one_name_are_told_apart_by_their_paths(
    items: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "more").mkdir()
    other = write(tmp_path / "more" / "chat.jsonl", rated_lines(seed=9))
    document = as_json(capfdbinary, items, other, "-m", "bleu")
    assert [one["name"] for one in document["sets"]] == [str(items), str(other)]


def test_figures_that_do_not_exist_are_dashes_with_their_reason(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    alike = [{**line, "ratings": {name: [2, 2] for name in line["ratings"]}} for line in rated_lines()]
    path = write(tmp_path / "alike.jsonl", alike)
    assert cli.main(["agreement", str(path), "-m", "bleu", "-m", "chrf", *DRAWS]) == 0
    out, _ = printed(capfdbinary)
    assert "bleu, Spearman, Pearson, Kendall, partial Spearman: all ratings are equal" in out
    assert re.search(r"\bnan\b", out, re.IGNORECASE) is None


def test_stdin_is_a_set_of_that_name(
    items: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(items.read_bytes())))
    assert as_json(capfdbinary, "-", "-m", "bleu")["sets"][0]["name"] == "stdin"


def test_quiet_leaves_warnings_alone(items: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["--quiet", "agreement", str(items), "-m", "bleu", *DRAWS]) == 0
    assert printed(capfdbinary)[1] == ""
    lines = rated_lines()
    del lines[0]["ratings"]["weak"]
    assert cli.main(["--quiet", "agreement", str(write(tmp_path / "gap.jsonl", lines)), "-m", "bleu", *DRAWS]) == 0
    assert printed(capfdbinary)[1] == "warning: gap: 1 replies of weak have no rating and are not used\n"


# ── options ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_baseline_is_the_first_metric_or_the_named_one_in_any_spelling(
    items: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    metrics = ["-m", "rouge-l", "-m", "bleu"]
    first = as_json(capfdbinary, items, *metrics)
    assert (first["settings"]["baseline"], names_of(first)[:2]) == ("rouge-l", ["rouge-l", "bleu"])
    written_out = as_json(capfdbinary, items, *metrics, "--baseline", "bleu:n=2,smooth=exp")
    assert (written_out["settings"]["baseline"], names_of(written_out)[:2]) == ("bleu", ["rouge-l", "bleu"])
    added = as_json(capfdbinary, items, *metrics, "--baseline", "chrf")
    assert (added["settings"]["baseline"], names_of(added)[:3]) == ("chrf", ["chrf", "rouge-l", "bleu"])
    assert [row["baseline"] for row in added["sets"][0]["rows"]][:3] == [True, False, False]


def test_a_metric_written_in_two_ways_is_compared_once(items: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert names_of(as_json(capfdbinary, items, "-m", "bleu", "-m", "bleu:n=2")) == ["bleu", "length", "human"]


def test_confidence_draws_and_seed_are_said_with_the_table(
    items: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    wide, narrow = (
        as_json(capfdbinary, items, "-m", "bleu", "--confidence", share)["sets"][0]["rows"][0]["spearman"]["interval"]
        for share in ("0.99", "0.8")
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert cli.main(["agreement", str(items), "-m", "bleu", "--confidence", "0.8", "--seed", "7", *DRAWS]) == 0
    tables = printed(capfdbinary)[0].split("agreement with the mean rating\n")[1]
    assert tables.splitlines()[0].split()[:4] == ["metric", "Spearman", "80", "%"]
    assert "  intervals: bootstrap, 200 draws of contexts, seed 7\n" in tables
    assert re.search(r"annotators with each other\nfigure +value +80 %", tables)


def test_the_language_decides_the_tokenizer(items: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    document = as_json(capfdbinary, items, "-m", "bleu", "-m", "bleu:tok=13a", "--language", "ja")
    signatures = [one["signature"] for one in document["metrics"]]
    assert ["|tok:mecab|" in signatures[0], "|tok:13a|" in signatures[1]] == [True, True]


def test_strict_prints_the_result_and_then_fails_for_a_bad_item(
    items: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with items.open("a", encoding="utf-8") as file:
        file.write('{"id": "bad", "replies": {"s": 3}}\n')
    assert cli.main(["agreement", str(items), "-m", "bleu", *DRAWS]) == 0
    assert "item bad, replies.s: a text was expected" in printed(capfdbinary)[1]
    assert cli.main(["agreement", str(items), "-m", "bleu", *DRAWS, "--strict"]) == 3
    out, err = printed(capfdbinary)
    assert "chat: agreement with the mean rating" in out
    assert "1 item could not be used" in err


# ── signatures of weighted items ──────────────────────────────────────────────────────────────────────────────────────

PROVENANCE = (
    "k:15|mode:embedding-utterance|gold:one|parrot:off|weights:rated|combine:first|cal:raw|"
    "index:chat@2026-11-20.1#9f2c41d07e12|rater:base@2026-11-20.3#41d07e9f2c55|depth.:auto|near.:0.9"
)


def weighted_lines(*provenances: str) -> list[dict[str, Any]]:
    """Rated items with a retrieved reference each, which say how it was made."""
    lines = rated_lines()
    for number, line in enumerate(lines):
        retrieved = {"text": line["references"][1], "source": "retrieved", "weight": 0.5, "rating": 0.5}
        line["references"] = [line["references"][0], retrieved]
        line["provenance"] = provenances[number % len(provenances)]
    return lines


def test_meta_and_score_have_one_signature_for_the_same_weighted_items(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path, metrics = write(tmp_path / "weighted.jsonl", weighted_lines(PROVENANCE)), ["-m", "upsilon-bleu", "-m", "bleu"]
    assert cli.main(["score", str(path), *metrics, "--draws", "0", "--json"]) == 0
    scored = [scores["signature_full"] for scores in json.loads(printed(capfdbinary)[0])["scores"]]
    compared = [metric["signature_full"] for metric in as_json(capfdbinary, path, *metrics)["metrics"]]
    assert cli.main(["agreement", "probe", str(path), *metrics, "--json"]) == 0
    probed = [metric["signature_full"] for metric in json.loads(printed(capfdbinary)[0])["scores"]]
    assert compared == scored == probed
    assert PROVENANCE.split("|depth.", maxsplit=1)[0] in scored[0]
    assert scored[0].endswith(f"|depth.:auto|near.:0.9|refaug:{VERSION}")
    assert "index:" not in scored[1]


# ── going wrong ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'ITEMS…'"),
        (["ITEMS", "ITEMS"], "is named twice"),
        (["ITEMS", "--json", "--csv"], "several forms of output at once"),
        (["ITEMS", "--csv", "--latex"], "several forms of output at once"),
        (["ITEMS", "-m", "blue"], "no metric is called 'blue'"),
        (["ITEMS", "-m", "bleu:x=1"], "bleu has no parameter 'x'"),
        (["ITEMS", "--baseline", "blue"], "no metric is called 'blue'"),
        (["ITEMS", "--rows", "most"], "most"),
        (["ITEMS", "--draws", "0"], "--draws: 0 is out of range"),
        (["ITEMS", "--confidence", "95"], "--confidence: 95 is out of range"),
        (["ITEMS", "--min-kappa", "2"], "--min-kappa: 2 is out of range"),
        (["ITEMS", "--unheard-of"], "--unheard-of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_makes_no_sense_ends_with_code_2(
    items: Path, arguments: list[str], message: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cli.main(["agreement", *(str(items) if one == "ITEMS" else one for one in arguments)]) == 2
    out, err = printed(capfdbinary)
    assert out == ""
    assert message in err


# ── files or a command ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["a", "b"], ("a", "b")),
        (["a", "--metric", "bleu", "b"], ("a", "b")),
        (["--metric", "bleu", "probe"], ("probe",)),
        (["./probe"], ("./probe",)),
    ],
    ids=" ".join,
)
def test_a_first_word_may_be_a_subcommand_and_all_else_are_files(words: list[str], files: tuple[str, ...]) -> None:
    context = command_at("agreement").make_context("agreement", list(words))
    assert tuple(context.params["order__data"]) == files


# ── other forms ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unwritable_report_is_refused_before_anything_is_read(
    items: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cli.main(["agreement", str(items), "-m", "bleu", "--report", str(items), *DRAWS]) == 2
    out, err = printed(capfdbinary)
    assert (out, err.splitlines()[0]) == ("", f"error [usage]: {items} is not a folder")


def test_a_report_is_written_beside_whatever_is_printed(
    items: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = tmp_path / "report"
    assert cli.main(["agreement", str(items), "-m", "bleu", "--report", str(folder), *DRAWS]) == 0
    assert f"report: {folder}" in printed(capfdbinary)[0]
    written = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert [name for name in written if name.endswith(".html")] != []
    assert [name for name in written if name.endswith(".png")] != []


def test_files_are_named_without_their_folders_where_that_is_enough() -> None:
    assert _short_names(["bleu", "greedy:vectors=/data/a/glove.txt,measure=f", "greedy:vectors=/data/b/glove.txt"]) == {
        "bleu": "bleu",
        "greedy:vectors=/data/a/glove.txt,measure=f": "greedy:vectors=glove.txt,measure=f",
        "greedy:vectors=/data/b/glove.txt": "greedy:vectors=glove.txt",
    }
    same = ["greedy:vectors=/data/a/glove.txt", "greedy:vectors=/data/b/glove.txt", "bleu:tok=13a"]
    assert _short_names(same) == {text: text for text in same}
