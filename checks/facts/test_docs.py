"""The pages say what the code does: links lead somewhere, commands parse, tables are held to the code they describe."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command as command_tree

from checks.reference import pages
from refaug.cli.main import app
from refaug.core import errors
from refaug.core.errors import RefaugError, Usage
from refaug.core.home import CLUSTER_VARIABLES, STORE_VARIABLES, VARIABLES, Settings
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizers import TOKENIZERS, get_tokenizer
from refaug.extras.cluster.search.node_copies import VARIABLE as NODE_CACHE
from refaug.logs.ingest.cleaning import ALWAYS, FILTERS, MARKUPS, REPAIRS, Cleaner, CleaningSettings, script_of
from refaug.logs.manifest import LogIngest, LogManifest, LogPart, LogSource
from refaug.logs.pairs import PAIR_SCHEMA
from refaug.metrics.catalogue import METRICS
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.service.web.problems import code_meanings

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "clients/python/README.md")),
    *sorted(DOCS.rglob("*.md")),
]
get_command = cache(command_tree)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TREE: Any = get_command(app)
_COMMANDS = "|".join(_TREE.commands)
_OF_GROUPS = {
    name
    for name, command in _TREE.commands.items()
    if hasattr(command, "commands") and not command.invoke_without_command
}
_INDENTED = re.compile(r"^(?: {4}.*\n)+", re.MULTILINE)


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def section(name: str, heading: str) -> str:
    """What stands under a heading, to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", page(name), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{name} has no section {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The body of every table in a text, cell by cell; `\\|` inside a cell is a bar."""
    tables = re.findall(r"^\|[^\n]*\|\n\|[-| ]+\|\n((?:\|[^\n]*\|\n?)*)", text, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def code(cell: str) -> str:
    """The text of a cell that is nothing but inline code."""
    assert re.fullmatch(r"`[^`]*`", cell), f"{cell!r} is not inline code"
    return cell[1:-1]


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ── links and commands ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_an_anchor_that_exist(path: Path) -> None:
    text = _FENCE.sub("", path.read_text("utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_the_reference_of_the_api_has_every_route_header_and_code() -> None:
    document = create_app(Settings(), ServeSettings()).openapi()
    routes = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    text = _FENCE.sub("", page("reference/api.md"))
    assert set(re.findall(r"^### ([A-Z]+ /.*)$", text, re.MULTILINE)) == routes
    codes = {code(row[0]) for row in rows(section("reference/api.md", "Errors")) if row[0].startswith("`")}
    assert codes == set(code_meanings())
    assert {kind.code for kind in error_classes()} <= codes
    headers = {code(row[0]) for row in rows(section("reference/api.md", "Headers"))}
    assert {"X-Timeout-S", "Idempotency-Key", "X-Request-Id", "Retry-After", "Location", "ETag", "Allow"} <= headers
    schemas = set(document["components"]["schemas"])
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) | {f for f in schemas if f"`{f}`" in text} == schemas


def test_pages_that_are_generated_say_when_they_are_not_current(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new"
    assert pages.main(["--check", str(folder)]) == 1
    assert not folder.exists()
    assert len(capsys.readouterr().err.splitlines()) == len(pages.PAGES)
    assert pages.main([str(folder)]) == 0
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == {
        name: page(f"reference/{name}") for name in pages.PAGES
    }
    assert pages.main([str(folder), "--check"]) == 0
    path = folder / "api.md"
    path.write_text(path.read_text("utf-8").replace("/healthz", "/health"), "utf-8")
    assert pages.main(["--check", str(folder)]) == 1
    assert capsys.readouterr().err == f"{path} is not what the service says: run make docs\n"


def shown_commands() -> list[tuple[str, str]]:
    """Every command line of a fenced or indented block, without what a shell adds to it."""
    found = []
    for path in PAGES:
        text = path.read_text("utf-8")
        blocks = _FENCE.findall(text) + _INDENTED.findall(_FENCE.sub("", text))
        for line in (line for block in blocks for line in block.splitlines()):
            match = re.search(rf"(?:^\s*|^\$ |/| )refaug ((?:--|(?:{_COMMANDS})\b).*)", line)
            if match and not line.startswith(("{", " →")):
                found.append((path.name, re.split(r"\s(?:#|>|\||&&)|\s{3,}", match[1])[0].strip()))
    return found


@pytest.mark.parametrize(("name", "line"), shown_commands(), ids=str)
def test_every_command_shown_in_a_block_parses(name: str, line: str) -> None:
    command: Any = get_command(app)
    arguments = shlex.split(line)
    if arguments[0] == "--help":
        return
    while hasattr(command, "commands"):
        while arguments[:1] in (["--quiet"], ["-q"]):
            arguments.pop(0)
        assert arguments[:1] != [], f"{name}: {line!r} is no whole command"
        if arguments[0] not in command.commands and command.invoke_without_command:
            break  # a group that does something by itself
        names = arguments.pop(0).split("|")  # `publish|rollback` are two commands
        assert set(names) <= set(command.commands), f"{name}: no command {line!r}"
        if len(names) > 1:
            return
        command = command.commands[names[0]]
    command.make_context(command.name, ["NAME" if argument == "…" else argument for argument in arguments])


def test_commands_are_found_in_the_pages_at_all() -> None:
    assert len(shown_commands()) > 50
    pages = {(name, line.split()[0]) for name, line in shown_commands()}
    assert {("beyond-one-machine.md", "artefacts"), ("self-play.md", "bots")} <= pages


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_named_in_running_text_exist(path: Path) -> None:
    tree: Any = get_command(app)
    commands = dict(_commands(tree, ""))
    known = {option for command in commands.values() for parameter in command.params for option in _options(parameter)}
    text = _INDENTED.sub("", _FENCE.sub("", path.read_text("utf-8")))
    unknown = []
    for span in re.findall(r"`([^`\n]+)`", text):
        words = span.split()
        if words[0] == "refaug" and len(words) > 1 and not words[1].startswith("-"):
            of_a_group = words[1] in _OF_GROUPS and len(words) > 2 and not words[2].startswith("-")
            names = words[1:3] if of_a_group else words[1:2]
            variants = [[*names[:-1], last] for last in names[-1].split("|")]
            unknown += [span for variant in variants if " ".join(variant) not in commands]
        if words[0] == "refaug" or words[0].startswith("--"):
            unknown += [word for word in words if word.startswith("--") and word.split("=")[0] not in known | _OTHERS]
    assert unknown == []


def test_parameters_of_metrics_named_in_running_text_exist() -> None:
    named = [
        (path.name, info, parameter)
        for path in PAGES
        for name, parameters in re.findall(r"""`"?([a-z0-9+-]+):([^`"\n]+)"?`""", path.read_text("utf-8"))
        if (info := METRICS.get(name)) is not None
        for parameter in re.findall(r"(?:^|,)([\w-]+)=", parameters)
    ]
    assert len(named) > 20
    assert [(page, info.name, name) for page, info, name in named if info.parameter(name) is None] == []


_OTHERS = {
    "--build-arg",
    "--junitxml",
    "--data",
    "--demo",
    "--sizes",
    "--help",
    "--paired-bs",
    "--paired-ar",
    "--dashboard-host",
}  # docker, pytest, benchmarks, sacrebleu, ray


def _commands(command: Any, path: str) -> list[tuple[str, Any]]:
    found = [(path, command)]
    for name, inner in getattr(command, "commands", {}).items():
        found += _commands(inner, f"{path} {name}".strip())
    return found


def _options(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


# ── cleaning ──────────────────────────────────────────────────────────────────────────────────────────────────────

WITHOUT_A_TEXT = {"flood", "blocked-speaker", "erased"}  # these look at other things than one message


def cleaning_of(options: str) -> dict[str, Any]:
    """`--max-chars 12` as the settings' fields."""
    words = code(options).split() if options else []
    pairs = zip(words[::2], words[1::2], strict=True)
    return {
        option.removeprefix("--").replace("-", "_"): int(value) if value.isdigit() else value for option, value in pairs
    }


def test_the_cleaning_page_has_every_rule_in_its_order() -> None:
    tables = rows(section("cleaning.md", "Repairs")), rows(section("cleaning.md", "Filters"))
    assert [code(row[0]) for table in tables for row in table] == [*REPAIRS, *FILTERS, *ALWAYS]


@pytest.mark.parametrize("row", rows(section("cleaning.md", "Repairs")), ids=lambda row: row[0].strip("`"))
def test_a_repair_does_what_its_example_shows_and_nothing_else_does(row: list[str]) -> None:
    rule, _, options, before, after = row
    settings = cleaning_of(options)
    text, repaired = json.loads(code(before)), json.loads(code(after))
    assert Cleaner(CleaningSettings(**settings)).clean([text]).texts == [repaired]
    others = tuple(name for name in (*REPAIRS, *FILTERS) if name != code(rule))
    assert Cleaner(CleaningSettings(**settings, rules=others)).clean([text]).texts != [repaired]


@pytest.mark.parametrize("row", rows(section("cleaning.md", "Filters")), ids=lambda row: row[0].strip("`"))
def test_a_filter_drops_its_example_for_its_own_reason(row: list[str]) -> None:
    rule, _, options, example, outcome = row
    if code(rule) in WITHOUT_A_TEXT:
        assert example == outcome == ""
        return
    assert outcome == "dropped"
    settings, text = cleaning_of(options), json.loads(code(example))
    assert Cleaner(CleaningSettings(**settings)).clean([text]).reasons == {0: code(rule)}
    if code(rule) not in ALWAYS:
        others = tuple(name for name in (*REPAIRS, *FILTERS) if name != code(rule))
        assert Cleaner(CleaningSettings(**settings, rules=others)).clean([text]).reasons == {}


@pytest.mark.parametrize("row", rows(section("cleaning.md", "Mark-up")), ids=lambda row: row[0].strip("`"))
def test_a_markup_takes_off_what_its_example_shows(row: list[str]) -> None:
    preset, _, options, before, after = row
    assert cleaning_of(options) == {"markup": code(preset)}
    cleaner = Cleaner(CleaningSettings(markup=code(preset)))
    assert cleaner.clean([json.loads(code(before))]).texts == [json.loads(code(after))]


def test_the_cleaning_page_has_every_markup_and_every_language() -> None:
    assert [code(row[0]) for row in rows(section("cleaning.md", "Mark-up"))] == list(MARKUPS)
    listed = [
        language
        for row in rows(section("cleaning.md", "Languages and scripts"))
        for language in re.findall(r"`(\w+)`", row[0])
    ]
    with pytest.raises(Usage) as refused:
        CleaningSettings(language="tlh")
    assert sorted(listed) == refused.value.remedy.removeprefix("known are: ").split(", ")
    scripts = {
        frozenset(script_of(language) for language in re.findall(r"`(\w+)`", row[0]))
        for row in rows(section("cleaning.md", "Languages and scripts"))
    }
    assert all(len(row) == 1 for row in scripts)


def test_the_short_answers_that_the_page_promises_to_keep_are_kept() -> None:
    kept = Cleaner(CleaningSettings()).clean([":-)", "?!", "ok"]).texts
    assert kept == [":-)", "?!", "ok"]
    assert Cleaner(CleaningSettings(language="ja")).clean(["OK LOL"]).texts == ["OK LOL"]


# ── tokenizers ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokenizer_page_has_every_tokenizer_with_its_reported_version() -> None:
    listed = {code(row[0]): code(row[2]) for row in rows(section("tokenizers.md", "The tokenizers by name"))[:7]}
    assert list(listed) == [kind.spelling for kind in TOKENIZERS]
    reported = {name: get_tokenizer(name).version for name in listed if "<" not in name}
    assert {name: listed[name] for name in reported} == reported


@pytest.mark.parametrize(
    "row",
    [*rows(section("tokenizers.md", "The tokenizers by name"))[7:], *rows(section("tokenizers.md", "`word`"))],
    ids=lambda row: f"{row[0]} {row[1]}",
)
def test_a_tokenizer_gives_the_tokens_that_the_page_shows(row: list[str]) -> None:
    assert " ".join(get_tokenizer(code(row[0])).tokenize(code(row[1]))) == code(row[2])


@pytest.mark.parametrize("row", rows(section("tokenizers.md", "Normalisation")), ids=lambda row: row[0])
def test_a_text_is_normalised_as_the_page_shows(row: list[str]) -> None:
    assert normalise(code(row[0])) == code(row[1])


# ── logs, errors, settings ────────────────────────────────────────────────────────────────────────────────────────


def test_the_log_page_has_every_column_with_its_type() -> None:
    listed = {code(row[0]): code(row[1]) for row in rows(section("internals/index-format.md", "A log"))}
    assert listed == {column.name: str(column.type) for column in PAIR_SCHEMA}


def test_the_log_page_names_every_field_of_the_manifest() -> None:
    named = set(re.findall(r"`(\w+)`", section("internals/index-format.md", "Its manifest")))
    kinds = (LogManifest, LogPart, LogIngest, LogSource)
    assert {field.name for kind in kinds for field in fields(kind)} - named == set()


def error_classes() -> list[type[RefaugError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RefaugError)]
    assert len(found) > 10
    return found


def test_the_error_page_has_every_class_with_its_code_exit_code_and_status() -> None:
    listed = {code(row[1]): (code(row[0]), int(row[2]), int(row[3])) for row in rows(page("reference/errors.md"))}
    assert listed == {kind.__name__: (kind.code, kind.exit_code, kind.status) for kind in error_classes()}


def test_every_error_has_an_occasion_and_a_remedy_on_the_page() -> None:
    assert [row[0] for row in rows(page("reference/errors.md")) if not (row[4] and row[5])] == []


def test_the_exit_code_page_has_every_exit_code() -> None:
    listed = [int(row[0]) for row in rows(page("reference/exit-codes.md"))]
    assert listed == sorted({0, *(kind.exit_code for kind in error_classes())})


def test_the_settings_page_has_every_variable_and_its_default() -> None:
    first = rows(page("reference/settings.md"))
    homes, others = first[: len(VARIABLES)], first[len(VARIABLES) :]
    stores, others = others[: len(STORE_VARIABLES)], others[len(STORE_VARIABLES) :]
    machines, served = others[: len(CLUSTER_VARIABLES)], others[len(CLUSTER_VARIABLES) :]
    variables = [*VARIABLES, *STORE_VARIABLES, *CLUSTER_VARIABLES, *ServeSettings().as_env()]
    assert [code(row[0]) for row in (*homes, *stores, *machines, *served)] == variables
    assert code(machines[0][0]) == NODE_CACHE
    assert [row[2] for row in machines] == [default for _, default in CLUSTER_VARIABLES.values()]
    assert [default for _, default in STORE_VARIABLES.values()] == [
        code(row[2]) if "`" in row[2] else "" for row in stores
    ]
    assert [code(row[2]) for row in homes] == [default for _, default in VARIABLES.values()]
    assert Path(code(homes[0][2])) == Settings().home
    defaults = {code(row[0]): "" if row[3] == "none" else code(row[3]) for row in served}
    assert ServeSettings.from_env(defaults) == ServeSettings()


@pytest.mark.parametrize(
    "row",
    rows(page("reference/settings.md"))[len(VARIABLES) + len(STORE_VARIABLES) + len(CLUSTER_VARIABLES) :],
    ids=lambda row: row[0].strip("`"),
)
def test_a_setting_is_a_variable_and_an_option_with_the_range_of_the_page(row: list[str]) -> None:
    command: Any = get_command(app)
    options = {name for parameter in command.commands["serve"].params for name in _options(parameter)}
    assert code(row[1]) in options
    if " to " in row[4]:
        for bound, step in zip(row[4].split(" to "), (-1, 1), strict=True):
            least = bound.replace(",", "")
            with pytest.raises(Usage, match=code(row[0])):
                ServeSettings.from_env({code(row[0]): str(type(json.loads(least))(json.loads(least) + step))})
    elif row[4] == "yes or no":
        with pytest.raises(Usage, match="perhaps"):
            ServeSettings.from_env({code(row[0]): "perhaps"})


# ── benchmarks, container ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("row", rows(section("internals/benchmarks.md", "Figures")), ids=lambda row: row[0])
def test_a_figure_of_the_benchmark_page_stands_in_its_result(row: list[str]) -> None:
    _, shown, file, key = row
    value = json.loads((ROOT / "bench" / "results" / code(file)).read_text("utf-8"))
    for step in code(key).split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    assert shown == (f"{value:,}" if isinstance(value, int) else str(value)), "copy the new figure into the page"


@pytest.mark.parametrize("row", rows(section("internals/proof.md", "What came out")), ids=lambda row: row[0])
def test_a_figure_of_the_proof_stands_in_its_result(row: list[str]) -> None:
    of_line = {one[0]: one for one in rows(section("results/metrics.md", "Fair rows"))}[row[0]]
    spearman, partial = of_line[1:4], of_line[6]
    assert row[1:] == [*spearman, partial], "copy the new figures into the page"


def test_the_image_copies_only_what_the_ignore_file_lets_through() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE) for name in line.split()[:-1]
    }
    let_through = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE))
    assert copied == let_through
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert "refaug" in copied


def test_the_licence_is_the_one_that_the_project_names() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text("utf-8")
