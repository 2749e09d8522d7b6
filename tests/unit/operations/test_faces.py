"""Each option of an operation is in every face, with the same limits, and no face has one of its own."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
import refaug_client
from refaug_client import _api
from refusals import refusing
from typer.main import get_command

import refaug as library
from refaug.cli.main import app
from refaug.cli.shared.field_options import flag_for, flag_of
from refaug.core.errors import RefaugError
from refaug.core.home import Settings
from refaug.core.options.decoding import BadOptions, decode, from_texts
from refaug.core.options.describing import OptionField, options_of
from refaug.core.options.kinds import NumberKind, UnionKind
from refaug.library.retrieval import augment_settings
from refaug.operations.agreement import AgreementOptions
from refaug.operations.catalogue import find_operation, operation_names
from refaug.operations.logs import DeletionOptions, Erase
from refaug.operations.scoring_options import RequestedScoring, ScoreOptions
from refaug.scoring.settings import AugmentSettings
from refaug.service.jobs.job_order import KINDS, parse_order
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

COMMANDS = {
    "freeze": "sets freeze",
    "index-build": "index build",
    "index-compact": "index compact",
    "index-encode": "index encode",
    "index-update": "index update",
    "ingest": "log ingest",
    "meta": "agreement",
    "rater-train": "train rater",
    "references": "sets references",
    "score": "score",
    "replies": "bots reply",
    "vectors": "train vectors",
}
if "self-play" in operation_names():  # the extra of conversations is there
    COMMANDS |= {"self-play": "bots play", "judge-conversations": "judge conversations", "hybrid-fit": "train hybrid"}
# What a command has beside its operation: how the result is printed, and where items lie.
OF_COMMANDS: Final = {
    "--json", "--help", "-m", "--csv", "--latex", "--tsv", "--level", "--details", "--report", "--strict",
    "--signature",  # options that an earlier score was made with, read back
}  # fmt: skip
OF_ONE_COMMAND: Final = {"ingest": {"--rejects"}}  # a file on the machine of who types
WITHOUT_A_COMMAND_OF_THEIR_OWN: Final = {
    "rate": "test pairs with candidates are no file that people write",
    "gc": "the command of each kind of artefact, whose kind is no option",
    "erase": "`refaug log delete` takes out of the log alone; an index leaves it out when it is updated",
    "nightly": "a schedule of the server",
}


def command_of(path: str) -> Any:
    command = get_command(app)
    for name in path.split():
        command = command.commands[name]
    return command


def flags_of(path: str) -> set[str]:
    return {name for parameter in command_of(path).params for name in parameter.opts if name.startswith("-")}


def flat_options(kind: Any) -> Iterator[OptionField]:
    """The options of a dataclass that have flags, and those of the groups in it."""
    for option in options_of(kind):
        if option.group is not None:
            yield from flat_options(option.group)
        elif option.has_flag:
            yield option


def flags_made_of(options: Iterable[OptionField]) -> set[str]:
    listed = list(options)
    flags = {flag_for(option) for option in listed if option.argument is None}
    return flags | {f"--{option.spelling.replace('_', '-')}" for option in listed if option.has_file}


def test_every_operation_has_a_command_or_a_reason() -> None:
    assert set(COMMANDS) | set(WITHOUT_A_COMMAND_OF_THEIR_OWN) == set(operation_names())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_options_of_its_operation_and_no_others(name: str) -> None:
    options = list(flat_options(find_operation(name)))
    flags = flags_of(COMMANDS[name]) - OF_COMMANDS - OF_ONE_COMMAND.get(name, set())
    assert flags == flags_made_of(options) - OF_COMMANDS
    arguments = [option.argument for option in options if option.argument is not None]
    assert [one.metavar for one in command_of(COMMANDS[name]).params if one.param_type_name == "argument"] == arguments


def test_a_deletion_has_the_options_of_an_erasure_that_concern_a_log() -> None:
    assert issubclass(Erase, DeletionOptions)
    assert flags_of("log delete") - OF_COMMANDS - {"--whole", "--yes"} == flags_made_of(options_of(DeletionOptions))


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = Settings(home=tmp_path_factory.mktemp("home"))
    document: dict[str, Any] = create_app(home, ServeSettings(allowed_hosts="testserver")).openapi()
    return document["components"]["schemas"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [name for name in KINDS if name in operation_names()])
def test_the_order_of_a_job_has_the_options_of_its_operation(schemas: dict[str, Any], name: str) -> None:
    operation = find_operation(name)
    properties = schemas[operation.__name__]["properties"]
    assert set(properties) == {"kind", *(option.spelling for option in options_of(operation))}
    for option in options_of(operation):
        alone = f"; {option.of_job}." if option.of_job else "."
        assert properties[option.spelling]["description"] == option.doc.removesuffix(".") + alone


@pytest.mark.parametrize("path", ["sets references", "score", "agreement", "sets freeze"])
def test_commands_have_all_settings_of_references(path: str) -> None:
    assert {flag_of(option.spelling) for option in options_of(AugmentSettings)} <= flags_of(path)


def test_bodies_orders_and_the_client_have_all_settings_of_references(schemas: dict[str, Any]) -> None:
    names = {option.spelling for option in options_of(AugmentSettings)}
    assert set(schemas["AugmentSettings"]["properties"]) == names
    assert set(typing.get_type_hints(_api.retrieval.Retrieval)) == names


def broken_limits() -> list[tuple[str, float]]:
    """A number above the limit of each setting that has one."""
    for_each = list[tuple[str, float]]()
    for option in options_of(AugmentSettings):
        kinds = option.kind.kinds if isinstance(option.kind, UnionKind) else (option.kind,)
        for_each += [(option.spelling, kind.le + 1) for kind in kinds if isinstance(kind, NumberKind) and kind.le]
    return for_each


@pytest.mark.parametrize(("name", "number"), broken_limits())
def test_a_limit_that_is_broken_has_one_message_in_every_face(name: str, number: float) -> None:
    def message(make: Any) -> str:
        with pytest.raises(BadOptions) as refused:
            make()
        [fault] = refused.value.faults
        assert fault.field == name
        return fault.message

    said = message(lambda: decode(AugmentSettings, {name: number}))
    assert message(lambda: AugmentSettings(**{name: number})) == said
    assert message(lambda: augment_settings({name: number})) == said
    assert message(lambda: from_texts(AugmentSettings, {name: str(number)})) == said
    order = {"kind": "freeze", "items": "a", "purpose": "test", "index": "i", "settings": {name: number}}
    with refusing(RefaugError, f"settings.{name}: {said}"):
        parse_order(order)


# Of the library: what is scored, and how it is told; of the client: how it is sent.
INPUTS_OF_KEYWORDS: Final = {"items", "predictions", "references", "utterances", "system", "metric", "on_error", "home"}
OF_THE_CLIENT: Final = {"self", "items", "replies", "system", "metric", "batch", "at_once", "progress"}
OF_REQUESTS: Final = {"references", "on_error", "return_"}


@pytest.mark.parametrize(
    ("function", "kind"), [(library.score, ScoreOptions), (library.meta, AgreementOptions)], ids=["score", "meta"]
)
def test_keywords_of_the_library_are_the_options_with_their_defaults(function: Any, kind: Any) -> None:
    keywords = inspect.signature(function).parameters
    options = {option.spelling: option for option in options_of(kind)}
    assert set(keywords) - INPUTS_OF_KEYWORDS == set(options)
    for name, option in options.items():
        default = keywords[name].default
        assert default in (option.default, None), name


def test_bodies_of_scores_have_the_options_of_scoring(schemas: dict[str, Any]) -> None:
    names = {option.spelling for option in options_of(ScoreOptions)}
    assert set(schemas["ScoresIn"]["properties"]) == {*names, "items", "references", "on_error", "return"}
    for option in options_of(ScoreOptions):
        assert schemas["ScoresIn"]["properties"][option.spelling]["description"] == option.doc
    of_sets = {option.spelling for option in options_of(RequestedScoring)}
    assert set(schemas["SetScoresIn"]["properties"]) == {*of_sets, "items", "replies", "on_error", "return"}


def test_scores_of_the_client_have_the_options_of_scoring() -> None:
    names = {option.spelling for option in options_of(ScoreOptions)}
    keywords = set(inspect.signature(refaug_client.Client.score).parameters)
    assert keywords - OF_THE_CLIENT - OF_REQUESTS == names
