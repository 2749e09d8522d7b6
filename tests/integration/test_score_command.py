"""`refaug score` and `refaug metrics` as users type them: files in every layout, outputs, problems, exit codes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU

from refaug.logs.demo.demo_items import DemoItemSettings, demo_items

ITEMS = [
    {"id": "d1", "references": ["we open at nine"], "replies": {"a": "we open at nine", "b": "no idea"}},
    {"id": "d2", "references": ["the blue one please", "blue"], "replies": {"a": "the red one", "b": "the blue one"}},
    {"id": "d3", "references": ["yes of course you can"], "replies": {"a": "yes you can", "b": "of course"}},
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return write(tmp_path / "items.jsonl", ITEMS)


def write(path: Path, items: list) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return path


def lines(path: Path, *texts: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return path


def systems(result, metric: int = 0) -> dict:
    assert result.code == 0, result.err
    return result.json["scores"][metric]["systems"]


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_items_and_line_aligned_files_give_the_same_scores(home, tmp_path: Path, items: Path) -> None:
    from_items = systems(home("score", items, "-m", "multi-bleu", "--json"))
    aligned = home(
        "score",
        "--replies", f"a={lines(tmp_path / 'first.txt', *(item['replies']['a'] for item in ITEMS))}",
        "--replies", lines(tmp_path / "b.txt", *(item["replies"]["b"] for item in ITEMS)),
        "--references", lines(tmp_path / "r0", *(item["references"][0] for item in ITEMS)),
        "--references", lines(tmp_path / "r1", "", "blue", ""),
        "-m", "multi-bleu", "--json",
    )  # fmt: skip
    found = systems(aligned)
    assert list(found) == ["a", "b"]
    for system in ("a", "b"):
        assert found[system]["corpus"] == from_items[system]["corpus"]
        assert found[system]["interval"] == from_items[system]["interval"]
        assert [one["score"] for one in found[system]["replies"]] == [
            one["score"] for one in from_items[system]["replies"]
        ]


def test_line_aligned_utterances_are_those_of_items_and_verify(home, tmp_path: Path) -> None:
    utterances = ["When do you open?", "", "May I?"]
    options = (
        "--utterances", lines(tmp_path / "u", *utterances),
        "--replies", f"a={lines(tmp_path / 'first', *(item['replies']['a'] for item in ITEMS))}",
        "--references", lines(tmp_path / "r0", *(item["references"][0] for item in ITEMS)),
    )  # fmt: skip
    scores = home("score", *options, "-m", "bleu", "--json")
    numbered = [
        {**item, "id": str(place), **({"utterance": text} if text else {})}
        for place, (item, text) in enumerate(zip(ITEMS, utterances, strict=True), start=1)
    ]
    of_items = home("score", write(tmp_path / "items.jsonl", numbered), "-m", "bleu", "--json")
    assert scores.json["utterances"] == of_items.json["utterances"]
    assert scores.json["inputs"]["utterances"] == [str(tmp_path / "u")]
    (tmp_path / "scores.json").write_text(scores.out, "utf-8")
    assert home("score", "verify", tmp_path / "scores.json").code == 0
    lines(tmp_path / "u", "When do you close?", "", "May I?")
    changed = home("score", "verify", tmp_path / "scores.json")
    assert (changed.code, "these utterances are not those of the file" in changed.out) == (6, True)


def test_a_bad_weight_beside_utterances_names_its_own_file(home, tmp_path: Path) -> None:
    result = home(
        "score",
        "--utterances", lines(tmp_path / "u", "Yes?"),
        "--replies", lines(tmp_path / "a", "yes"),
        "--references", lines(tmp_path / "r", "yes"),
        "--weights", lines(tmp_path / "w", "7"),
    )  # fmt: skip
    assert (result.code, str(tmp_path / "w") in result.err) == (3, True)


def test_compressed_items_and_stdin_are_read_alike(home, tmp_path: Path, items: Path, monkeypatch) -> None:
    plain = _without_inputs(home("score", items, "--json").json)
    packed = tmp_path / "items.jsonl.gz"
    packed.write_bytes(gzip.compress(items.read_bytes()))
    assert _without_inputs(home("score", packed, "--json").json) == plain
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(items.read_bytes())))
    assert home("score", "-", "--json").json == plain


def _without_inputs(document: dict[str, Any]) -> dict[str, Any]:
    return {name: content for name, content in document.items() if name != "inputs"}


def test_replies_come_from_stdin_as_sacrebleu_users_pipe_them(home, tmp_path: Path, monkeypatch) -> None:
    replies, references = ["The cat sat down .", "It is on the mat"], ["The cat sat .", "It was on the mat"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(replies).encode())))
    result = home(
        "score", "--replies", "-", "--references", lines(tmp_path / "ref", *references),
        "-m", "multi-bleu:n=4,smooth=exp,tok=13a", "--percent", "--json",
    )  # fmt: skip
    assert systems(result)["stdin"]["corpus"] == pytest.approx(BLEU().corpus_score(replies, [references]).score)


def test_a_device_is_refused_before_it_is_read(home) -> None:
    result = home("score", "/dev/zero")
    assert result.code == 3
    assert "dev/zero" in result.err


def test_items_of_a_cut_gzip_are_scored_only_on_request(home, tmp_path: Path) -> None:
    lines_of_items = [
        json.dumps({"id": f"i{n}", "utterance": f"u{n * 7919 % 10007}", "references": ["a b"], "replies": {"s": "a b"}})
        for n in range(4_000)
    ]
    packed = gzip.compress("\n".join(lines_of_items).encode(), mtime=0)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(packed[: len(packed) // 2])
    refused = home("score", cut, "-m", "bleu")
    assert refused.code == 3
    assert f"{cut}, line " in refused.err
    assert "breaks off" in refused.err
    scored = home("score", cut, "-m", "bleu", "--allow-truncated")
    assert scored.code == 0
    assert "breaks off" in scored.err


# ── outputs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_metrics_are_one_table_before_those_of_each(home, items: Path) -> None:
    printed = home("score", items, "-m", "bleu", "-m", "chrf", "-m", "bleu:n=1", "--draws", "0").out.splitlines()
    scores = home("score", items, "-m", "bleu", "-m", "chrf", "-m", "bleu:n=1", "--draws", "0", "--json").json["scores"]
    assert [line.split("  ")[0] for line in printed[:4]] == ["all metrics: corpus scores", "system", "a", "b"]
    assert printed[1].split() == ["system", "bleu", "(1)", "chrf", "bleu", "(2)"]
    for line in printed[2:4]:
        name, *shown = line.split()
        assert shown == [f"{one['systems'][name]['corpus']:.4f}" for one in scores]
    assert home("score", items, "-m", "bleu", "-m", "chrf", "--level", "reply").out.startswith("bleu|")


def test_only_the_systems_that_are_named_are_scored(home, tmp_path: Path, items: Path) -> None:
    both, alone = (
        home("score", items, "-m", "bleu", "--json"),
        home("score", items, "--systems", "b", "-m", "bleu", "--json"),
    )
    assert systems(alone) == {"b": systems(both)["b"]}
    assert list(systems(home("score", items, "--systems", "b,a", "-m", "bleu", "--json"))) == ["b", "a"]
    assert alone.json["inputs"]["systems"] == ["b"]
    (tmp_path / "b.json").write_text(alone.out, "utf-8")
    assert home("score", "verify", tmp_path / "b.json").code == 0
    unknown = home("score", items, "--systems", "a,z", "-m", "bleu")
    assert (unknown.code, "no system is called 'z'" in unknown.err, "there are: a, b" in unknown.err) == (2, True, True)


def test_tsv_has_the_comparison_with_the_baseline(home, items: Path) -> None:
    options = ("score", items, "-m", "bleu", "--baseline", "b")
    header, *rows = (line.split("\t") for line in home(*options, "--tsv").out.splitlines())
    figures = json.loads(home(*options, "--json").out)["scores"][0]["comparisons"]["a"]
    names = ["difference", "difference_low", "difference_high", "p_bootstrap", "p_randomisation"]
    assert header[header.index("signature") + 1 :] == names
    numbers = (figures["difference"], *figures["interval"], figures["p_bootstrap"], figures["p_randomisation"])
    assert {row[1]: row[-5:] for row in rows} == {"a": [str(number) for number in numbers], "b": [""] * 5}


def test_csv_has_the_rows_of_tsv_and_latex_a_column_a_metric(home, items: Path) -> None:
    options = ("score", items, "-m", "bleu", "-m", "chrf", "--baseline", "b", "--draws", "100")
    tsv = [line.split("\t") for line in home(*options, "--tsv").out.splitlines()]
    assert list(csv.reader(io.StringIO(home(*options, "--csv").out))) == tsv
    latex = home(*options, "--latex").out.splitlines()
    bleu, chrf = (systems(home(*options, "--json"), metric)["a"] for metric in (0, 1))
    p = json.loads(home(*options, "--json").out)["scores"][0]["comparisons"]["a"]["p_randomisation"]
    row = next(line for line in latex if line.startswith("a &"))
    assert latex[0] == r"% needs \usepackage{booktabs}"
    assert latex[3] == r"System & bleu & chrf \tabularnewline"
    assert (f"${bleu['corpus']:.4f}$" in row, f"${chrf['corpus']:.4f}$" in row, f"(p = {p:.3f})" in row) == (True,) * 3


def test_latex_of_replies_has_a_row_each_and_escapes_names(home, tmp_path: Path) -> None:
    one = {"id": "50%", "references": ["yes it is"], "replies": {"gpt_2": "yes it is", "b": ""}}
    latex = home("score", write(tmp_path / "i.jsonl", [one]), "-m", "bleu", "--latex", "--level", "reply").out
    assert latex.splitlines()[3:7] == [
        r"System & Item & bleu \tabularnewline",
        r"\midrule",
        r"gpt\_2 & 50\% & $1.0000$ \tabularnewline",
        r"b & 50\% & $0.0000$ \tabularnewline",
    ]


def test_json_of_a_level_has_the_figures_of_that_level_alone(home, items: Path) -> None:
    options = ("score", items, "-m", "bleu", "--json", "--baseline", "b")
    whole = home(*options).json
    levels = {name: home(*options, "--level", name).json for name in ("reply", "system", "corpus")}
    fields = {
        "reply": ["scored", "unscored", "unscored_by_reason", "replies"],
        "system": ["mean", "mean_interval", "scored", "unscored", "unscored_by_reason"],
        "corpus": ["corpus", "interval", "scored", "unscored", "unscored_by_reason", "parts"],
    }
    for name, document in levels.items():
        assert document["level"] == name
        assert {key: found for key, found in document.items() if key not in ("level", "scores", "checksum")} == {
            key: found for key, found in whole.items() if key not in ("scores", "checksum")
        }
        for system, figures in document["scores"][0]["systems"].items():
            expected = whole["scores"][0]["systems"][system]
            assert [key for key in figures if key != "interval_note"] == fields[name]
            assert figures == {key: expected[key] for key in figures}
        assert ("comparisons" in document["scores"][0]) == (name != "reply")


def test_the_default_metric_is_the_one_that_the_references_were_made_for(home, tmp_path: Path) -> None:
    def metric_for(*references: object) -> str:
        path = write(tmp_path / "i.jsonl", [{"references": list(references), "replies": {"a": "x y"}}])
        return home("score", path, "--json").json["scores"][0]["metric"]

    found = {"text": "x", "source": "retrieved", "rating": 0.5}
    assert metric_for("x") == "multi-bleu"
    assert metric_for("x", {"text": "y", "ratings": [4, 5]}) == "delta-bleu"
    assert metric_for("x", {"text": "y", "weight": 0.5}, found) == "upsilon-bleu"


def test_a_language_decides_the_tokenizer_where_the_specification_does_not(home, items: Path) -> None:
    found = home("score", items, "-m", "bleu", "-m", "bleu:tok=char", "--language", "ja", "--json").json["scores"]
    assert "|tok:mecab|" in found[0]["signature"]
    assert "|tok:char|" in found[1]["signature"]


# ── problems ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_item_is_reported_with_its_place_and_the_rest_is_scored(home, tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    bad = {"id": "bad", "references": [{"text": "x", "weight": 1.5}], "replies": {"a": "x"}}
    path.write_text("\n".join([json.dumps(ITEMS[0]), "{not json", json.dumps(bad), json.dumps(ITEMS[1])]), "utf-8")
    result = home("score", path, "-m", "bleu", "--json")
    assert result.code == 0
    assert [(one["line"], one["id"], one["field"]) for one in result.json["problems"]] == [
        (2, None, ""),
        (3, "bad", "references[0].weight"),
    ]
    assert all(str(fact) in result.err for fact in (path, "references[0].weight", "1.5"))
    expected = systems(home("score", write(tmp_path / "good.jsonl", ITEMS[:2]), "-m", "bleu", "--json"))
    assert systems(result) == expected
    strict = home("score", path, "-m", "bleu", "--json", "--strict")
    assert strict.code == 3
    assert json.loads(strict.out)["scores"][0]["systems"] == expected


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-m", "blue"], 2, "no metric is called 'blue'"),
        (["-m", "bleu,chrf"], 2, "name each by itself: -m bleu -m chrf"),
        (["-m", "bleu-4"], 2, "the order is a parameter: bleu:n=4"),
        (["-m", "bleu:n=9"], 2, "n cannot be '9'"),
        (["-m", "bleu:variant=tsuta20"], 2, "bleu has no parameter 'variant'"),
        (["-m", "upsilon-bleu"], 3, "no item has other references than golds"),
        (["-m", "delta-bleu"], 3, "would be multi-bleu"),
        (["-m", "ter", "--percent"], 2, "cannot be given in per cent"),
        (["--baseline", "z"], 2, "no system is called 'z'"),
        (["--json", "--level", "system", "--explain"], 2, "--explain with --level system"),
        (["--json", "--tsv"], 2, "--json and --tsv at once"),
        (["--csv", "--latex"], 2, "--csv and --latex at once"),
        (["--utterances", "x"], 2, "ITEMS: a file of items and line-aligned files at once"),
        (["--explain", "--csv"], 2, "--explain with rows for programs"),
        (["--references", "x"], 2, "ITEMS: a file of items and line-aligned files at once"),
        (["-m", "greedy"], 2, "word vectors"),
    ],
)
def test_a_mistake_gets_its_own_message(home, items: Path, arguments: list[str], code: int, says: str) -> None:
    result = home("score", items, *arguments)
    assert (result.code, says in result.err.replace("\n", " ")) == (code, True), result.err


def test_an_explanation_says_which_reference_credits_which_words(home, tmp_path: Path) -> None:
    references = ["At the market.", {"text": "In a shop next door.", "weight": 0.5}]
    item = {"id": "d1", "references": references, "replies": {"a": "In the market, now."}}
    result = home(
        "score", write(tmp_path / "items.jsonl", [item]), "-m", "delta-bleu:n=1,bp=none", "--explain", "--percent"
    )
    shown = [line.split("  ") for line in result.out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in shown]
    found = cells.index(["a, d1: 58.33"])  # 3.5 of 6; without the first 1 of 3, without the second 3 of 6
    assert cells[found + 1 : found + 4] == [
        ["weight", "reference", "credits", "change without it"],
        ["1.00", "At the market.", "., market, the", "-25.00"],
        ["0.50", "In a shop next door.", "in", "-8.33"],
    ]
    assert result.out.splitlines()[found + 4] == "in no reference: ,, now"


def test_a_report_without_a_place_is_refused_at_once_and_one_that_fails_loses_no_scores(home, tmp_path, items) -> None:
    result = home("score", items, "-m", "bleu", "--report", items)
    assert (result.code, result.out) == (2, "")
    assert f"{items} is not a folder" in result.err
    assert "--report is empty" in home("score", items, "-m", "bleu", "--report", "").err
    (tmp_path / "report" / "report.html" / "mine").mkdir(parents=True)
    result = home("score", items, "-m", "bleu", "--json", "--report", tmp_path / "report")
    assert result.code == 1
    assert json.loads(result.out)["scores"][0]["metric"] == "bleu"


@pytest.mark.parametrize("count", [2, 3])
def test_several_files_are_refused_with_what_to_do(count: int, home, items: Path) -> None:
    result = home("score", *[items] * count, "-m", "bleu")
    assert result.code == 2
    assert "unexpected extra argument" in result.err
    assert "one file at a time" in result.err


@pytest.mark.parametrize(
    ("words", "code"), [("i.jsonl 2>/dev/full", 0), ("i.jsonl 2>&-", 0), ("- <&-", 3), ("none 2>/dev/full", 3)]
)
def test_streams_that_are_closed_or_full_take_no_scores_away(words: str, code: int, tmp_path: Path) -> None:
    lines(tmp_path / "i.jsonl", '{"id": "x", "references": ["a shop"], "replies": {"a": "a shop"}, "extra": 1}')
    command = f"exec {sys.executable} -m refaug score {words} -m bleu --json"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == code, result.stderr
    assert (b"Traceback" in result.stderr, bool(result.stdout)) == (False, code == 0)


def test_a_file_of_lines_of_another_kind_says_what_was_expected(home, tmp_path: Path) -> None:
    result = home("score", lines(tmp_path / "log.jsonl", '{"id": "x", "turns": ["a", "b"]}'))
    assert result.code == 3
    assert "no item has a reply" in result.err


# ── the demo, the catalogue, start-up ─────────────────────────────────────────────────────────────────────────────────


def test_the_demo_systems_come_in_their_order(home, tmp_path: Path) -> None:
    path = write(tmp_path / "demo.jsonl", [item.as_json() for item in demo_items(DemoItemSettings())])
    found = systems(home("score", path, "-m", "bleu", "--json"))
    assert sorted(found, key=lambda name: -found[name]["corpus"]) == ["human-like", "decent", "generic", "random"]
