"""Groups of options: a command with groups is the command that has all their options written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing
from typer.exceptions import TyperException
from typer.main import get_command

from refaug.cli.shared.field_options import with_options
from refaug.core.errors import Usage

CountOption = Annotated[int, typer.Option("-n", "--count", help="How many.", min=1, max=9)]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="May be repeated.", metavar="TAG")]


@dataclass(frozen=True, kw_only=True)
class Amount:
    """With an alias, and a field whose option is called otherwise."""

    count: CountOption = 3
    is_exact: Annotated[bool, typer.Option("--exact", help="No more and no less.")] = False

    def __post_init__(self) -> None:
        if self.is_exact and self.count == 9:
            raise Usage("exactly nine", remedy="take eight")


@dataclass(frozen=True, kw_only=True)
class Look:
    """With a required field, and a list."""

    colour: Annotated[str, typer.Option(help="Which one.", metavar="NAME")]
    tag: TagOption = None


def grouped(seen: list[Any]) -> Any:
    @with_options
    def command(
        context: typer.Context,
        where: Annotated[str, typer.Argument(help="Where to.")],
        size: Annotated[float, typer.Option(help="How large.")] = 1.5,
        *,
        look: Look,
        note: Annotated[str | None, typer.Option(help="A word.")] = None,
        amount: Amount,
    ) -> None:
        """Send some."""
        seen.append((context.info_name, where, size, look, note, amount))

    return typer_command(command)


def written_out(seen: list[Any]) -> Any:
    def command(
        context: typer.Context,
        where: Annotated[str, typer.Argument(help="Where to.")],
        colour: Annotated[str, typer.Option(help="Which one.", metavar="NAME")],
        size: Annotated[float, typer.Option(help="How large.")] = 1.5,
        tag: TagOption = None,
        note: Annotated[str | None, typer.Option(help="A word.")] = None,
        count: CountOption = 3,
        is_exact: Annotated[bool, typer.Option("--exact", help="No more and no less.")] = False,
    ) -> None:
        """Send some."""
        look, amount = Look(colour=colour, tag=tag), Amount(count=count, is_exact=is_exact)
        seen.append((context.info_name, where, size, look, note, amount))

    return typer_command(command)


def typer_command(command: Any) -> Any:
    app = typer.Typer(add_completion=False)
    app.command("send")(command)
    return get_command(app)


def taken(make: Any, *typed: str) -> Any:
    seen: list[Any] = []
    make(seen).main(list(typed), prog_name="send", standalone_mode=False)
    (only,) = seen
    return only


def told(parameter: Any) -> dict[str, Any]:
    """All that typer knows of an option."""
    facts = vars(parameter)
    kind = facts["type_descriptor"]
    return {**facts, "type_descriptor": (kind.annotation, vars(kind.parameter_info))}


def test_options_of_groups_equal_written_out_ones_in_place_and_order() -> None:
    found, wanted = ({one.name: told(one) for one in make([]).params} for make in (grouped, written_out))
    assert found == wanted
    assert list(found) == ["where", "size", "colour", "tag", "note", "count", "is_exact"]
    assert [name for name, one in found.items() if one["required"]] == ["where", "colour"]
    assert [name for name, one in found.items() if one["multiple"]] == ["tag"]
    defaults = {name: one["default"] for name, one in found.items() if not one["required"]}
    assert defaults == {"size": 1.5, "tag": None, "note": None, "count": 3, "is_exact": False}
    assert (found["count"]["opts"], found["count"]["help"]) == (["-n", "--count"], "How many.")
    assert grouped([]).help == "Send some."


def test_what_is_not_typed_is_as_the_fields_have_it() -> None:
    assert taken(grouped, "home", "--colour", "red") == ("send", "home", 1.5, Look(colour="red"), None, Amount())


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5)


@given(
    colour=words,
    tags=st.lists(words, max_size=3),
    note=st.none() | words,
    size=st.none() | st.floats(-1e9, 1e9),
    count=st.none() | st.integers(1, 8),
    is_exact=st.booleans(),
)
def test_what_is_typed_arrives_in_the_groups(
    colour: str, tags: list[str], note: Any, size: Any, count: Any, is_exact: bool
) -> None:
    given_ones = [("colour", colour), ("note", note), ("size", size), ("count", count), *(("tag", tag) for tag in tags)]
    typed = ["home", *(f"--{name}={value}" for name, value in given_ones if value is not None)]
    found = taken(grouped, *typed, *(["--exact"] if is_exact else []))
    look, amount = Look(colour=colour, tag=tags or None), Amount(count=count or 3, is_exact=is_exact)
    assert found == ("send", "home", 1.5 if size is None else size, look, note, amount)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ((), "Missing option '--colour'"),
        (("--colour", "red", "-n", "0"), "Invalid value for '-n' / '--count'"),
        (("--colour", "red", "--amount", "3"), "No such option: --amount"),
    ],
)
def test_what_typer_refuses_it_refuses_in_the_same_words(typed: tuple[str, ...], message: str) -> None:
    said = []
    for make in (grouped, written_out):
        with pytest.raises(TyperException) as refused:
            taken(make, "home", *typed)
        said.append(refused.value.format_message())
    assert said[0] == said[1]
    assert message in said[0]


def test_what_a_group_refuses_is_refused_before_the_command_begins() -> None:
    seen: list[Any] = []
    with refusing(Usage) as refused:
        grouped(seen).main(["home", "--colour", "red", "--exact", "-n", "9"], standalone_mode=False)
    assert (refused.value.remedy, seen) == ("take eight", [])


def test_duplicate_option_names_and_lost_defaults_are_errors() -> None:
    def twice(*, amount: Amount, count: int = 1) -> None: ...

    with pytest.raises(ValueError, match="duplicate parameter name: 'count'"):
        with_options(twice)

    def lost(amount: Amount = Amount(count=7)) -> None: ...

    with pytest.raises(AssertionError, match="this one would be lost"):
        with_options(lost)
