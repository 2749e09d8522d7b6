"""The commands as typer runs them, each made and imported when it is used, and how their help is laid out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from refaug.cli.commands import ENTRIES, GROUPS, EntryPanel, commands_below, function_of, known_below, target_of

_ANY_HOME: Final = frozenset({"admin restore", "admin doctor"})  # commands for a home that is not whole


# ── The tree ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def command_at(path: str) -> Any:
    """Return the command of these words, or the group of those that begin with them."""
    below = known_below(path) or ([] if target_of(path) else commands_below(path))
    if not below:
        return _leaf(path)
    if not (target_of(path) or commands_below(path)):
        return _leaf(f"{path} {below[0]}")  # of an extra that is not installed, which is the error
    if target_of(path):
        own = _leaf(path)
        return ItemsOrCommand(path, params=own.params, callback=own.callback, help=own.help)
    return CommandGroup(path, help=GROUPS.get(path) or ENTRIES[path].help, no_args_is_help=True)


def _leaf(path: str) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(path.rpartition(" ")[2], cls=_Leaf)(function_of(path))
    leaf: Any = typer.main.get_command(alone)
    leaf.path = path
    return leaf


class _CommandsBelow(Mapping[str, Any]):
    """The commands below a path by their next word, each imported at its first use."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return command_at(f"{self._path} {name}".strip())

    def __contains__(self, name: object) -> bool:
        return name in known_below(self._path) or name in commands_below(self._path)

    def __iter__(self) -> Iterator[str]:
        return iter(commands_below(self._path))

    def __len__(self) -> int:
        return len(commands_below(self._path))


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TEXTS: Final = (bool, bool | None, str, str | None, list[str], list[str] | None)


class _KeepsTexts:
    """A command whose options and arguments that are texts stay what was typed, and are None where nothing was.

    typer has pydantic make texts of texts, whose import takes as long as what most commands import of ours.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, the help option among them."""
        command: Any = super()
        parameters: list[Any] = command.get_params(ctx)
        annotations = getattr(getattr(self, "callback", None), "__annotations__", {})
        for parameter in parameters:
            if not isinstance(parameter.process_value, partial):
                kinds = get_args(annotations.get(parameter.name))
                is_text = bool(kinds) and kinds[0] in _TEXTS
                parameter.process_value = partial(_process, parameter, parameter.process_value, is_text)
        return parameters


def _process(parameter: Any, process: Callable[[Any, Any], Any], is_text: bool, context: Any, typed: Any) -> Any:
    """Return the value of a parameter, as its own `process` would, which is for numbers, paths and what is missing."""
    value = list(typed or ()) if parameter.multiple or parameter.nargs == -1 else typed
    if not (is_text or typed is None) or (parameter.required and parameter.value_is_missing(value)):
        return process(context, typed)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


# ── Commands and groups ───────────────────────────────────────────────────────────────────────────────────────────────


class _Leaf(_KeepsTexts, TyperCommand):
    """A command that runs a function."""

    path = ""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, of a long help the first paragraph."""
        _write_text(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help with all options, where it is wanted."""
        _answer_help_all(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in panels."""
        _write_options(self, ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the function, over a home that is whole."""
        _require_home(self.path, ctx)
        return super().invoke(ctx)


class CommandGroup(_KeepsTexts, TyperGroup):
    """Commands below a path; its help shows the whole sentence of each."""

    def __init__(self, path: str = "", **settings: Any) -> None:
        settings.setdefault("name", path.rpartition(" ")[2])
        super().__init__(**{**settings, "rich_markup_mode": None})
        self.path = path
        self.commands = _CommandsBelow(path)  # type: ignore[assignment]  # nothing is added to it

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help, where that with all options is wanted, which is the same here."""
        _answer_help_all(self, ctx, args[:1])
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in panels, and the commands."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the commands are for, of a long help the first paragraph."""
        _write_text(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the commands in their order, each with the first paragraph of its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.sentence_of(command)) for name, command in self.commands.items()])

    def sentence_of(self, command: Any) -> str:
        """Return what stands beside a command."""
        return _sentence(command)


class RefaugCommand(CommandGroup):
    """`refaug` itself: its help imports no command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the entries by panel."""
        width = max(map(len, ENTRIES))
        for panel in EntryPanel:
            rows = [(f"{name:<{width}}", entry.help) for name, entry in ENTRIES.items() if entry.panel is panel]
            with formatter.section(panel):
                formatter.write_dl(rows)


class ItemsOrCommand(CommandGroup):
    """A command that takes files and has subcommands: a first word that names a subcommand is no file.

    A file of that name has to be written as ./name.
    """

    allow_interspersed_args = True  # files and options in any order
    allow_extra_args = False  # a word too many is no command: the first one would have been

    def __init__(self, path: str, **settings: Any) -> None:
        super().__init__(path, invoke_without_command=True, subcommand_metavar="", **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave everything after the name of a subcommand to that subcommand."""
        if not args or not self._is_command(args[0]):
            _answer_help_all(self, ctx, args)
            return super().parse_args(ctx, args)
        ctx.resilient_parsing = True  # nothing is missing where a subcommand is named
        super().parse_args(ctx, [])
        ctx.resilient_parsing, ctx.args = False, args
        return args

    def sentence_of(self, command: Any) -> str:
        """Return what stands beside a command: here no more than a line, since the options are what is looked for."""
        return re.split("[:;]|, and ", _sentence(command))[0].removesuffix(".")

    def _is_command(self, word: str) -> bool:
        """Say whether a word names a subcommand; packages of others are read where it cannot be a file or an option."""
        if word in known_below(self.path):
            return True
        return word.isidentifier() and not Path(word).exists() and word in self.commands

    def invoke(self, ctx: Any) -> Any:
        """Run the named subcommand alone, or this command."""
        if not ctx.args:
            _require_home(self.path, ctx)
            return super().invoke(ctx)
        name, *rest = ctx.args
        command = self.commands[name]
        # A sibling of this command, not a child: else the usage line would have ITEMS before the name.
        with ctx, command.make_context(f"{ctx.info_name} {name}", rest, parent=ctx.parent) as inner:
            return command.invoke(inner)


def _require_home(path: str, ctx: Any) -> None:
    if path not in _ANY_HOME:
        ctx.obj.require_whole()


# ── Help ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

HELP_ALL: Final = "--help-all"
_PANELS: Final = (
    *("Input", "Cleaning", "Index", "Rater", "Training", "Metric", "Retrieval", "Statistics"),
    *("Listening", "Access", "Serving", "Limits", "Output"),
)
_OF_OUTPUT: Final = frozenset(
    {"--json", "--csv", "--tsv", "--latex", "--html", "--output", "--report", "--level", "--details", "--strict"}
)
_LONG: Final = 20  # options, from which on help shows the everyday ones alone
_NAMES_WIDTH: Final = 24
_FIRST_SENTENCE: Final = re.compile(r".*?\.(?= +[A-Z\[])")
_LAST_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]$")
_DEFAULT: Final = re.compile(r"\[default: \((.*?)\)(?=[\];])")


def _sentence(command: Any) -> str:
    return inspect.cleandoc(command.help or "").partition("\n\n")[0]


def _answer_help_all(command: Any, ctx: Any, args: list[str]) -> None:
    """Print the help with all options and end, where that is asked for."""
    if HELP_ALL in args:
        ctx.meta[HELP_ALL] = True
        typer.echo(command.get_help(ctx))
        ctx.exit()


def _hides_options(command: Any) -> bool:
    """Say whether the help shows the everyday options alone."""
    return len(command.params) > _LONG and any(parameter.hidden for parameter in command.params)


def _write_text(command: Any, ctx: Any, formatter: Any) -> None:
    """Write what a command does; the rest of a long help is for --help-all."""
    text = inspect.cleandoc(command.help or "")
    if _hides_options(command) and HELP_ALL not in ctx.meta:
        text = text.partition("\n\n")[0]
    if text:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments and options under their headings; of a long command those that are needed daily.

    Of each the help has the first sentence then, and --help-all the rest.
    """
    hides, shows_all = _hides_options(command), HELP_ALL in ctx.meta
    sections = dict[str, list[tuple[str, str]]]()
    for parameter in command.get_params(ctx):
        if hides and parameter.hidden and not shows_all:
            continue
        names, text = _record(parameter, ctx)
        if hides and not shows_all:
            text = _shortened(text)
        sections.setdefault(_heading(parameter), []).append((names, text))
    if hides:
        sections.setdefault("Options", []).append((HELP_ALL, "Show all options in full."))
    if sections.keys() <= {"Arguments", "Output", "Options"}:
        sections["Options"] = [*sections.pop("Output", []), *sections.pop("Options", [])]
    for heading in sorted(sections, key=_order):
        with formatter.section(heading):
            formatter.write_dl(sections[heading], col_max=_NAMES_WIDTH)


def _record(parameter: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of an option and its text, as typer has them, without brackets inside brackets."""
    shown = copy(parameter)
    shown.hidden = False
    names, text = shown.get_help_record(ctx)
    return names, _DEFAULT.sub(r"[default: \1", text)


def _shortened(text: str) -> str:
    """Return the first sentence, and the default."""
    sentence = _FIRST_SENTENCE.match(text)
    default = _LAST_BRACKETS.search(text) if sentence is not None else None
    if sentence is None or (default is not None and default.start() < sentence.end()):
        return text
    return sentence[0] if default is None else f"{sentence[0]} {default[0]}"


def _heading(parameter: Any) -> str:
    if parameter.rich_help_panel:
        return str(parameter.rich_help_panel)
    if parameter.param_type_name == "argument":
        return "Arguments"
    return "Output" if _OF_OUTPUT.intersection(parameter.opts) else "Options"


def _order(heading: str) -> int:
    """Return the place of a heading: arguments first, options without a heading of their own last."""
    places = ("Arguments", *_PANELS)
    return places.index(heading) if heading in places else len(places) + (heading == "Options")
