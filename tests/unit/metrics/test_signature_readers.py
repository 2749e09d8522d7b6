"""The readers of signatures in clients/signature: they say what refaug says, of the vectors and of every metric."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from browser import CHROMIUM, opened
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.metrics.catalogue import METRICS
from refaug.metrics.signature import Signature
from refaug.metrics.specification import Specification, build, settings_of

FOLDER = Path(__file__).resolve().parents[3] / "clients" / "signature"
VECTORS: dict[str, Any] = json.loads((FOLDER / "vectors.json").read_text("utf-8"))
NODE = shutil.which("node")
READ_ALL = """
const read = async (line) => {
  try {
    const made = parse(line);
    const fields = {settings: Object.fromEntries(made.settings), details: Object.fromEntries(made.details)};
    return {...made, ...fields, full: full(made), short: await short(made)};
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
};
const readAll = (lines) => Promise.all(lines.map(read));
"""

Read = Callable[[list[str]], list[Any]]  # what a reader makes of each line: fields with both forms, or None


def python_reader() -> ModuleType:
    specification = importlib.util.spec_from_file_location("refaug_signature", FOLDER / "refaug_signature.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["refaug_signature"] = module  # where its dataclass looks for its annotations
    specification.loader.exec_module(module)
    return module


def read_with_refaug(lines: list[str]) -> list[Any]:
    def read(line: str) -> Any:
        try:
            made = Signature.parse(line)
        except BadInput:
            return None
        fields = {"metric": made.metric, "settings": dict(made.settings), "details": dict(made.details)}
        return {**fields, "refaug": made.refaug, "full": made.full, "short": made.short}

    return list(map(read, lines))


def read_with_python(lines: list[str]) -> list[Any]:
    reader = python_reader()

    def read(line: str) -> Any:
        try:
            made = reader.parse(line)
        except ValueError:
            return None
        fields = {"metric": made.metric, "settings": dict(made.settings), "details": dict(made.details)}
        return {**fields, "refaug": made.refaug, "full": reader.full(made), "short": reader.short(made)}

    return list(map(read, lines))


def read_with_node(lines: list[str]) -> list[Any]:
    assert NODE is not None
    script = (
        f"import {{parse, full, short}} from {json.dumps((FOLDER / 'refaug-signature.mjs').as_uri())};\n{READ_ALL}"
        "import {readFileSync} from 'node:fs';\n"
        "console.log(JSON.stringify(await readAll(JSON.parse(readFileSync(0, 'utf8')))));"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", script],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return list(json.loads(done.stdout))


def read_with_chromium(lines: list[str], folder: Path) -> list[Any]:
    module = (FOLDER / "refaug-signature.mjs").read_text("utf-8").replace("export ", "")
    (folder / "page.html").write_text("<!doctype html><title>signatures</title>", "utf-8")
    with opened((folder / "page.html").as_uri(), folder) as page:
        return list(page.run(f"(async () => {{ {module} {READ_ALL} return readAll({json.dumps(lines)}); }})()"))


@pytest.fixture(
    params=[
        read_with_refaug,
        read_with_python,
        pytest.param("node", marks=pytest.mark.skipif(NODE is None, reason="there is no node")),
        pytest.param(
            "chromium", marks=[pytest.mark.machine, pytest.mark.skipif(CHROMIUM is None, reason="no browser")]
        ),
    ]
)
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Read:
    if request.param == "node":
        return read_with_node
    if request.param == "chromium":
        return lambda lines: read_with_chromium(lines, tmp_path)
    return request.param


def test_every_vector_reads_as_its_fields_and_is_written_again(read: Read) -> None:
    valid = VECTORS["valid"]
    for found, vector in zip(read([vector["full"] for vector in valid]), valid, strict=True):
        assert {key: found[key] for key in vector} == vector
        assert [list(found[part]) for part in ("settings", "details")] == [
            list(vector[part]) for part in ("settings", "details")
        ]
    for found, vector in zip(read([vector["short"] for vector in valid]), valid, strict=True):
        assert (found["metric"], found["settings"], found["details"]) == (vector["metric"], vector["settings"], {})


def test_other_spellings_read_as_the_same_signature(read: Read) -> None:
    spelled = VECTORS["read_only"]
    assert [found["full"] for found in read([one["line"] for one in spelled])] == [one["full"] for one in spelled]


def test_lines_that_are_no_signature_are_refused(read: Read) -> None:
    lines = VECTORS["invalid"]
    assert [line for line, found in zip(lines, read(lines), strict=True) if found is not None] == []


def test_the_signature_of_every_metric_is_the_same_line_everywhere(read: Read) -> None:
    made = [
        Signature(metric=name, settings=settings_of(info, Specification.parse(name), {}))
        if info.needs
        else Signature.of(build(name))
        for name, info in METRICS.items()
    ]
    found = read([one.full for one in made])
    assert [one["full"] for one in found] == [one.full for one in made]
    assert [one["short"] for one in found] == [one.short for one in made]


def test_the_python_reader_keeps_the_hash_of_a_short_form_and_says_what_is_wrong() -> None:
    reader, vector = python_reader(), VECTORS["valid"][0]
    assert reader.parse(vector["short"]).full_hash == vector["short"].split("|full:")[1][:12]
    with pytest.raises(ValueError, match=r"'n' is not part of a signature"):
        reader.parse("bleu|n|refaug:1")


def test_a_value_that_is_no_utf8_is_refused_by_its_part() -> None:
    with refusing(BadInput, "'n:%FF' is not part of a signature"):
        Signature.parse("bleu|n:%FF|refaug:1")
