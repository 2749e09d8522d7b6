"""refaug-client: what it prints, where, and which exit code it ends with."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from xml.etree import ElementTree as ET

import pytest
from known_items import ITEMS
from scripted import DROP, Asked, Said, ok, page, problem, scripted

from refaug_client import Client, Later, Problem, RefaugError, ServerFault, Usage
from refaug_client._cli import exit_code, main, parser
from refaug_client._cli.baseline import Figures, Verdict
from refaug_client._cli.ci_reports import annotation_lines, junit_text
from refaug_client._cli.printing import escape_controls, print_table
from refaug_client._cli.reading import BadFile
from refaug_client._core import errors

SECRET = "rk_s3cret"
IDS = [item["id"] for item in ITEMS]
REPLIES = [item["replies"]["a"] for item in ITEMS]


@dataclass
class Ran:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in this process, with what it is given on stdin."""

    def ran(*arguments: Any, given: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsysbinary.readouterr()
        return Ran(code, said.out.decode("utf-8"), said.err.decode("utf-8"))

    return ran


def writing(folder: Path, replies: Any, set_id: str = "0123456789abcdef") -> list[Any]:
    """A command that scores these replies, and makes them the baseline."""
    return ["ci", replies, "--set", set_id, "--baseline", folder / "new.json", "--write-baseline", "-m", "delta-bleu"]


def lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def replies_file(folder: Path, replies: Sequence[Optional[str]], name: str = "replies.jsonl") -> Path:
    path = folder / name
    path.write_text(lines([{"id": one, "reply": reply} for one, reply in zip(IDS, replies)]), "utf-8")
    return path


@pytest.fixture
def replies(tmp_path: Path) -> Path:
    return replies_file(tmp_path, REPLIES)


# ── what is handed in and out ────────────────────────────────────────────────────────────────────────────────────

GOOD = b'{"id": "d0", "reply": "yes"}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD + b"{nonsense\n", "2: no JSON"),
        (GOOD + b'["d1"]\n', "2: a list"),
        (GOOD + b'{"id": "d1", "score": NaN}\n', "2: no JSON: NaN"),
        (GOOD + b'{"id": "d1", "reply": "\xff"}\n', "2: not UTF-8"),
        (GOOD + b"[" * 100_000 + b"\n", "2: no JSON"),
        (b"", "no rows"),
        (b"\n \n", "no rows"),
        (b'{"id": "d0"}\n', "no replies"),
        (b'{"reply": "yes"}\n', "row 1: id is null"),
        (b'{"id": "", "reply": "yes"}\n', "row 1: id is empty"),
        (b'{"id": true, "reply": "yes"}\n', "row 1: id is true or false"),
        (b'{"id": "d0", "reply": 7}\n', "row 1: the reply of 'model' is a number"),
        (b'{"id": "d0", "reply": ["yes"]}\n', "row 1: the reply of 'model' is a list"),
        (b'{"id": "d0", "replies": "yes"}\n', "row 1: replies is a text"),
        (b'{"id": "d0", "reply": "yes", "replies": {"model": "no"}}\n', "row 1: reply and replies.model"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(run: Run, tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    ran = run(*writing(tmp_path, path), "--url", "http://127.0.0.1:9")
    assert (ran.code, ran.out) == (3, "")
    assert f"{path}:{said}" in ran.err or f"{path}: {said}" in ran.err


def test_numbers_are_ids_and_a_system_must_have_replies(
    run: Run, url: str, sets: dict[str, str], tmp_path: Path
) -> None:
    rows = lines([{"id": 7, "reply": "yes"}]).encode()
    ran = run(*writing(tmp_path, "-", sets["test"]), "--url", url, given=rows)
    assert ran.code == 3
    assert "'7'" in ran.err or '"7"' in ran.err or " 7" in ran.err
    ran = run(*writing(tmp_path, "-", sets["test"]), "--system", "nobody", "--url", url, given=rows)
    assert ran.code == 3
    assert "'nobody'" in ran.err


def test_a_table_is_safe_for_a_terminal_and_as_wide_as_its_letters(capsysbinary: Any) -> None:
    print_table(["system", "corpus"], [["\x1b[31mred", 0.5], ["日本", None]])
    assert capsysbinary.readouterr().out.decode().splitlines() == [
        "system       corpus",
        "\\x1b[31mred  0.5000",
        "日本              -",
    ]
    assert escape_controls("a\u202eb\n") == "a\\u202eb\n"


def test_files_that_are_not_there_or_are_folders_are_told(run: Run, tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none.jsonl", "no such file"), (tmp_path, "is a directory")):
        ran = run(*writing(tmp_path, path), "--url", "http://127.0.0.1:9")
        assert (ran.code, ran.out) == (3, "")
        assert f"{path}: {said}" in ran.err


# ── errors, keys and codes ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (DROP, 4, "ended before the answer"),
        (page(504), 4, "proxy"),
        (page(200), 4, "proxy"),
        (problem(503, "overloaded", "too much waits", retry_after=0), 4, "[overloaded]: too much waits"),
        (problem(429, "too_many_requests", "slower", retry_after=0), 4, "[too_many_requests]"),
        (problem(500, "internal", "a fault"), 4, "[internal]"),
        (problem(401, "no_key", "this key is not known"), 3, "[no_key]"),
        (problem(403, "not_allowed", "no"), 3, "[not_allowed]"),
        (problem(404, "not_found", "there is no such set"), 3, "[not_found]: there is no such set"),
        (problem(410, "withdrawn", "withdrawn: leaked"), 3, "[withdrawn]"),
        (problem(422, "bad_input", "items[0]: what is that"), 3, "[bad_input]"),
    ],
)
def test_an_error_is_a_sentence_on_stderr_and_a_code(
    run: Run, replies: Path, answer: Any, code: int, said: str
) -> None:
    with scripted([answer]) as server:
        ran = run(*writing(replies.parent, replies), "--url", server.url, "--tries", 1, "--key", SECRET)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert ran.err.startswith("error")
    assert SECRET not in ran.err


def test_progress_is_told_where_it_is_asked_for(run: Run, url: str, sets: dict[str, str], replies: Path) -> None:
    given = [*writing(replies.parent, replies, sets["test"]), "--url", url]
    assert "12 of 12" in run(*given, "--progress").err
    assert run(*given).err == run(*given, "--progress", "--quiet").err == ""


def test_where_nobody_is_that_is_said(run: Run, replies: Path) -> None:
    with scripted([DROP]) as server:
        url = server.url
    ran = run(*writing(replies.parent, replies), "--url", url, "--tries", 1)
    assert (ran.code, ran.out) == (4, "")
    assert url in ran.err


def test_every_error_has_a_code_that_says_what_to_do() -> None:
    about = {"problem": {}}
    expected: list[tuple[RefaugError, int]] = [
        (Usage(""), 2),
        (BadFile(""), 3),
        (Problem("", **about), 3),
        (Later("", **about), 4),
        (ServerFault("", **about), 4),
        (errors.TimedOut(""), 4),
        (errors.BadAnswer(""), 4),
    ]
    assert [exit_code(error) for error, _ in expected] == [code for _, code in expected]


@pytest.mark.parametrize("how", ["option", "file", "stdin", "variable"])
def test_a_key_is_sent_however_it_is_given(
    run: Run, replies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    options: dict[str, list[Any]] = {
        "option": ["--key", SECRET],
        "file": ["--key-file", tmp_path / "key"],
        "stdin": ["--key-file", "-"],
        "variable": [],
    }
    with scripted([problem(404, "not_found", "there is no such set")]) as server:
        monkeypatch.setenv("REFAUG_URL", server.url)
        if how == "variable":
            monkeypatch.setenv("REFAUG_KEY", SECRET)
        ran = run(*writing(tmp_path, replies), *options[how], given=f"{SECRET}\n".encode())
    assert (ran.code, ran.out) == (3, "")
    assert [asked.headers["authorization"] for asked in server.requests] == [f"Bearer {SECRET}"]


def test_keys_that_are_none_are_told_without_being_shown(run: Run, replies: Path, tmp_path: Path) -> None:
    ci = writing(tmp_path, replies)
    (tmp_path / "empty").write_text(" \n")
    assert run(*ci, "--key-file", tmp_path / "empty").code == 3
    assert run(*ci, "--key-file", tmp_path / "none").code == 3
    both = run(*ci, "--key-file", tmp_path / "empty", "--key", SECRET)
    assert both.code == 2
    spaced = run(*ci, "--key", f"{SECRET} and more")
    assert spaced.code == 2
    assert SECRET not in both.err + spaced.err


GIVEN = ["ci", "x", "--set", "0123456789abcdef", "--baseline", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["ci"],
        ["wonder"],
        [],
        [*GIVEN, "--kye", SECRET],
        [*GIVEN, f"--kye={SECRET}"],
        [*GIVEN, SECRET],
        [*GIVEN, "--ke", SECRET],
        [*GIVEN, "--draws", "many"],
        ["ci", "x", "--set", "0123456789abcdef"],
    ],
)
def test_a_command_that_makes_no_sense_is_2_and_repeats_no_secret(run: Run, wrong: list[str]) -> None:
    ran = run(*wrong)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "--help" in ran.err
    assert SECRET not in ran.err


def test_help_says_everything_that_can_be_asked_for(run: Run) -> None:
    assert run("--help").code == 0
    ran = run("ci", "--help")
    assert ran.code == 0
    assert {"--url", "--baseline", "--draws", "--junit"} <= set(ran.out.split())
    assert parser().prog == "refaug-client"


def test_a_fault_of_ours_is_not_told_as_a_drop(run: Run, replies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refaug_client._cli.commands.read_replies", lambda *_: 1 / 0)
    ran = run("ci", replies, "--set", "x", "--baseline", "b")
    assert ran.code == 4
    assert "ZeroDivisionError" in ran.err
    assert "fault of ours" in ran.err


# ── in CI ─────────────────────────────────────────────────────────────────────────────────────────────────────────

WORSE = ["how how"] * len(IDS)


@pytest.fixture
def ci(run: Run, url: str, sets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    def ran(replies: Sequence[Optional[str]], *more: Any) -> Ran:
        path = replies_file(tmp_path, replies)
        given = ["--set", sets["test"], "--baseline", tmp_path / "baseline.json", "--url", url]
        return run("ci", path, *given, *more)

    return ran


def test_the_same_replies_pass_and_worse_ones_fail_with_a_sentence(
    ci: Run, tmp_path: Path, url: str, sets: Any
) -> None:
    written = ci(REPLIES, "--write-baseline", "-m", "delta-bleu", "-m", "bleu")
    assert (written.code, written.err) == (0, "")
    with Client(url) as refaug:
        before = refaug.sets.score(sets["test"], REPLIES, items=IDS, metric="delta-bleu").corpus
        after = refaug.sets.score(sets["test"], WORSE, items=IDS, metric="delta-bleu").corpus
    assert before is not None
    assert after is not None
    found = json.loads((tmp_path / "baseline.json").read_text("utf-8"))
    assert found["metrics"]["delta-bleu"]["corpus"] == before
    assert (found["items"], found["replies"]) == (IDS, REPLIES)

    passed = ci(REPLIES)
    assert passed.code == 0
    assert "passed: delta-bleu is " in passed.err

    failed = ci(WORSE, "--max-drop", 0.01)
    assert failed.code == 1
    assert f"failed: delta-bleu fell to {after:.4f} from {before:.4f}, by {before - after:.4f}" in failed.err
    row = next(line.split() for line in failed.out.splitlines() if line.startswith("delta-bleu"))
    assert row[1:4] == [f"{before:.4f}", f"{after:.4f}", f"{before - after:.4f}"]

    told = ci(WORSE, "--max-drop", 0.01, "--json", "--quiet")
    assert told.code == 1
    assert told.json["passed"] is False
    first = told.json["metrics"][0]
    assert (first["metric"], first["drop"]) == ("delta-bleu", before - after)
    one = ci(WORSE, "-m", "bleu", "--json").json
    assert [found["metric"] for found in one["metrics"]] == ["bleu"]


def test_the_junit_file_has_a_case_for_each_metric_in_the_shape_of_its_schema(ci: Run, tmp_path: Path) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu", "-m", "bleu")
    path = tmp_path / "report.xml"
    assert ci(REPLIES, "--junit", path).code == 0
    assert JunitCounts.read(path) == JunitCounts(tests=2, failures=0, cases=["delta-bleu", "bleu"], failed=[])
    failed = ci(WORSE, "-m", "delta-bleu", "-m", "bleu", "--max-drop", 0.01, "--junit", path, "--json")
    assert failed.code == 1
    assert JunitCounts.read(path) == JunitCounts(
        tests=2, failures=2, cases=["delta-bleu", "bleu"], failed=["delta-bleu", "bleu"]
    )
    message = ET.parse(path).getroot().findall(".//failure")[0].get("message")
    assert f"failed: {message}" in failed.err.splitlines()
    assert failed.json["passed"] is False
    refused = ci(REPLIES, "--write-baseline", "--junit", path)
    assert refused.code == 2
    nowhere = ci(REPLIES, "--junit", tmp_path / "no" / "report.xml")
    assert nowhere.code == 3
    assert "--junit with a place" in nowhere.err


@dataclass(frozen=True)
class JunitCounts:
    """What a JUnit file says, read by the rules of its schema: elements, their order, and attributes."""

    tests: int
    failures: int
    cases: list[str]
    failed: list[str]

    @classmethod
    def read(cls, path: Path) -> JunitCounts:
        suites = ET.parse(path).getroot()
        assert suites.tag == "testsuites"
        (suite,) = suites
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
        assert {name: suite.attrib[name] for name in ("tests", "failures", "errors")} == {
            name: suites.attrib[name] for name in ("tests", "failures", "errors")
        }
        assert [child.tag for child in suite] == ["properties"] + ["testcase"] * (len(suite) - 1)
        cases = suite.findall("testcase")
        for case in cases:
            assert set(case.attrib) == {"name", "classname", "time"}
            assert [child.tag for child in case] in (["system-out"], ["failure", "system-out"])
        failed = [case.attrib["name"] for case in cases if case.find("failure") is not None]
        return cls(
            int(suite.attrib["tests"]), int(suite.attrib["failures"]), [case.attrib["name"] for case in cases], failed
        )


def verdict(metric: str, now: float = 0.1) -> Verdict:
    before, after = (Figures("bleu|n:2", score, 3, 0, higher_is_better=True) for score in (0.5, now))
    return Verdict(metric, before, after, 0.0)


def test_names_that_xml_and_workflow_commands_would_obey_are_escaped() -> None:
    hostile = 'a<b>&"\x00\x1b\ud800%\r\n::error::x,y'
    text = junit_text([verdict(hostile)], "0123456789abcdef")
    (case,) = ET.fromstring(text.encode()).findall(".//testcase")
    assert case.attrib["name"] == 'a<b>&"\ufffd\ufffd\ufffd%\r\n::error::x,y'
    (line,) = annotation_lines([verdict("50%\r\nx::y,z")], "a,b:c%.jsonl")
    assert line == (
        "::error file=a%2Cb%3Ac%25.jsonl,title=refaug-client ci%3A 50%25%0D%0Ax%3A%3Ay%2Cz::"
        "50%25%0D%0Ax::y,z fell to 0.1000 from 0.5000, by 0.4000: more than the 0 that it may get worse by"
    )
    assert list(annotation_lines([verdict("bleu", 0.6)], "-")) == []
    assert next(annotation_lines([verdict("bleu")], "-")).startswith(
        "::error title=refaug-client ci%3A bleu::bleu fell"
    )


def test_annotations_are_printed_where_github_reads_them(ci: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    assert "::error" not in ci(WORSE).err
    asked = ci(WORSE, "--annotations", "--json")
    assert asked.json["passed"] is False
    (line,) = [line for line in asked.err.splitlines() if line.startswith("::")]
    assert "replies.jsonl,title=refaug-client ci%3A delta-bleu::delta-bleu fell to " in line
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert line in ci(WORSE).err.splitlines()
    assert "::" not in ci(REPLIES).err


def test_a_drop_that_is_allowed_passes_and_a_rise_always_does(ci: Run, tmp_path: Path) -> None:
    ci(WORSE, "--write-baseline", "-m", "delta-bleu")
    rose = ci(REPLIES)
    assert rose.code == 0
    assert "rose to" in rose.err
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    drop = ci(WORSE, "--json").json["metrics"][0]["drop"]
    assert drop > 0
    assert ci(WORSE, "--max-drop", drop).code == 0
    assert ci(WORSE, "--max-drop", drop * 0.99).code == 1
    assert ci(WORSE, "--max-drop", 1).code == 0


def test_draws_test_the_drop_on_equal_items_and_pass_chance_differences(ci: Run) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    slightly = ["how how", *REPLIES[1:]]
    found = ci(slightly, "--draws", 500, "--json").json["metrics"][0]
    low, high = found["interval"]
    assert low <= found["drop"] <= high
    assert 0 < found["p"] <= 1
    assert ci(slightly, "--draws", 500).code == (1 if found["drop"] > 0 else 0)
    by_chance = ci(slightly, "--draws", 500, "--max-p", 1e-9)
    assert by_chance.code == 0
    surely = ci(WORSE, "--draws", 500, "--max-p", 1.1)
    assert surely.code == 1
    assert "(p = " in surely.err
    assert ci(WORSE, "--max-p", 0.05).code == 2


def test_replies_that_lost_their_score_fail_though_the_rest_scores_well(ci: Run) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    gaps = ci([None, None, *REPLIES[2:]], "--max-drop", 1)
    assert gaps.code == 1
    assert "2 more replies have no score" in gaps.err
    nothing = ci([None, *[None] * (len(IDS) - 2), "x"][: len(IDS)], "--max-drop", 1)
    assert nothing.code == 1


def test_what_cannot_be_compared_is_not(ci: Run, run: Run, url: str, sets: dict[str, str], tmp_path: Path) -> None:
    lacking = ci(REPLIES)
    assert lacking.code == 3
    assert "--write-baseline" in lacking.err
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    baseline = tmp_path / "baseline.json"

    fewer = ci(REPLIES[:-1])
    assert fewer.code == 3
    assert "12 items, and these replies 11" in fewer.err
    swapped = tmp_path / "swapped.jsonl"
    swapped.write_text(lines([{"id": one, "reply": "x"} for one in reversed(IDS)]))
    other = run("ci", swapped, "--set", sets["test"], "--baseline", baseline, "--url", url)
    assert (other.code, "another order" in other.err) == (3, True)
    another = run("ci", tmp_path / "replies.jsonl", "--set", sets["train"], "--baseline", baseline, "--url", url)
    assert (another.code, sets["train"] in another.err) == (3, True)
    unknown = ci(REPLIES, "-m", "bleu")
    assert (unknown.code, "has no bleu" in unknown.err) == (3, True)

    found = json.loads(baseline.read_text("utf-8"))
    found["metrics"]["delta-bleu"]["signature"] += "|changed"
    baseline.write_text(json.dumps(found))
    changed = ci(REPLIES)
    assert changed.code == 3
    assert "cannot be compared" in changed.err
    assert "|changed" in changed.err


def test_of_several_systems_one_is_named(run: Run, url: str, sets: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "several.jsonl"
    path.write_text(lines([{"id": one, "replies": {"a": "yes", "b": "no"}} for one in IDS]))
    given = ["--set", sets["test"], "--baseline", tmp_path / "b.json", "--url", url, "--write-baseline"]
    ran = run("ci", path, *given)
    assert (ran.code, "--system" in ran.err) == (2, True)
    assert run("ci", path, *given, "--system", "a").code == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "null",
        lambda text: text.replace("refaug-client baseline", "another file"),
        lambda text: text.replace('"format_version": 1', '"format_version": 2'),
        lambda text: text.replace('"d0",', "", 1),
        lambda text: text.replace('"d0"', "7", 1),
        lambda text: text.replace('"corpus"', '"corps"'),
        lambda text: text.replace('"higher_is_better": true', '"higher_is_better": "yes"'),
        lambda text: text.replace('"unscored": 0', '"unscored": "0"'),
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_baseline_is_told_and_compares_nothing(ci: Run, tmp_path: Path, damage: Any) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    path = tmp_path / "baseline.json"
    text = path.read_text("utf-8")
    assert damage(text) != text
    path.write_text(damage(text), "utf-8")
    ran = ci(REPLIES)
    assert (ran.code, ran.out) == (3, "")
    assert str(path) in ran.err


def test_a_baseline_is_written_whole_or_not_at_all(ci: Run, run: Run, tmp_path: Path, url: str, sets: Any) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    before = (tmp_path / "baseline.json").read_bytes()
    path = replies_file(tmp_path, REPLIES)
    nowhere = tmp_path / "no" / "folder" / "b.json"
    ran = run("ci", path, "--set", sets["test"], "--baseline", nowhere, "--url", url, "--write-baseline")
    assert (ran.code, str(nowhere) in ran.err) == (3, True)
    none = ci([None] * (len(IDS)), "--write-baseline", "-m", "delta-bleu")
    assert none.code == 3
    assert (tmp_path / "baseline.json").read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["baseline.json", "replies.jsonl"]


@pytest.mark.parametrize("drop", ["-0.1", "nan"])
def test_a_limit_that_is_none_is_refused(ci: Run, drop: str) -> None:
    ci(REPLIES, "--write-baseline", "-m", "delta-bleu")
    assert ci(REPLIES, f"--max-drop={drop}").code == 2


def scored(corpus: float, *, higher_is_better: bool) -> Any:
    system = {"corpus": corpus, "scored": 12, "unscored": 0, "replies": [{"id": one, "score": corpus} for one in IDS]}
    metric = {
        "metric": "errors",
        "signature": "errors|v",
        "signature_full": "errors|v",
        "corpus_from": "mean",
        "higher_is_better": higher_is_better,
        "scale": 1.0,
        "references": "r",
    }

    def answer(asked: Asked) -> Any:
        return ok({"scores": [{**metric, "systems": dict.fromkeys(asked.json["replies"], system)}], "problems": []})

    return answer


@pytest.mark.parametrize(("higher", "now", "code"), [(True, 0.2, 1), (True, 0.4, 0), (False, 0.2, 0), (False, 0.4, 1)])
def test_of_a_metric_where_less_is_better_more_is_worse(
    run: Run, replies: Path, tmp_path: Path, higher: bool, now: float, code: int
) -> None:
    given = ["ci", replies, "--set", "0123456789abcdef", "--baseline", tmp_path / "b.json"]
    with scripted(scored(0.3, higher_is_better=higher)) as server:
        assert run(*given, "--url", server.url, "--write-baseline").code == 0
    with scripted(scored(now, higher_is_better=higher)) as server:
        ran = run(*given, "--url", server.url, "--max-drop", 0.05)
    assert ran.code == code
    assert ("rose to" if now > 0.3 else "fell to") in ran.err


# ── in a shell ────────────────────────────────────────────────────────────────────────────────────────────────────


def shell(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "refaug_client", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_a_reader_that_has_seen_enough_is_no_error(url: str, sets: dict[str, str], replies: Path) -> None:
    process = shell(*writing(replies.parent, replies, sets["test"]), "--url", url, "--quiet")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_ctrl_c_ends_it_with_5_and_no_traceback(replies: Path) -> None:
    def never(_: Asked) -> Any:
        return Said(200, b"{}", {}, first=threading.Event())

    with scripted(never) as server:
        process = shell(*writing(replies.parent, replies), "--url", server.url)
        server.until(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip().splitlines()[-1]) == (5, b"", b"stopped")
    assert b"Traceback" not in err


def test_a_key_is_not_repeated_where_processes_write_about_themselves(replies: Path) -> None:
    with scripted([problem(401, "no_key", "this key is not known")]) as server:
        process = shell(*writing(replies.parent, replies), "--url", server.url, "--key", SECRET)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert SECRET.encode() not in out + err
