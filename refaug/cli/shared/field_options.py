"""Options of commands from dataclasses: their fields become flags, and the dataclass is made of what was typed.

A dataclass of `core.options` has texts, limits and kinds in its annotations: its flags take texts, which the decoder
of all faces reads. Other dataclasses have typer's own annotations.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from refaug.cli.shared.output import names_in
from refaug.core.errors import Usage
from refaug.core.options.decoding import BadOptions, Options, from_texts
from refaug.core.options.describing import OptionField, options_of
from refaug.core.options.kinds import BoolKind, ListKind, MapKind, SizeKind, size_in_words

# flags that are not spelled as their fields: what is repeated stands in the singular, --weights is a file, and what has
# no flag is called as in the usage line
_FLAGS: Final[Mapping[str, str]] = {
    "bots": "--bot",
    "block_speakers": "--block-speaker",
    "data": "ITEMS",
    "dialogues": "--dialogue",
    "exclude_logs": "--exclude-log",
    "items": "ITEMS",
    "metrics": "--metric",
    "no_rules": "--no-rule",
    "speakers": "--speaker",
    "weights": "--reference-weights",
    "without_systems": "--without-system",
}

_SHORT: Final[Mapping[str, tuple[str, ...]]] = {"--metric": ("-m",)}
_FILE_HELP: Final = "A file of further ones, one a line."


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer in which the fields of dataclass parameters stand in their place.

    A field without a default is a required option. The dataclass is built from the typed options before the command
    begins, so its checks come first.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

    @functools.wraps(command)
    def run_command(**typed: Any) -> None:
        for name, group in groups.items():
            flags = {field: typed.pop(parameter) for field, parameter in _parameters(name, group).items()}
            for field, parameter in _file_parameters(name, group).items():
                flags[field] = [*(flags[field] or ()), *names_in(typed.pop(parameter))]
            typed[name] = _made_of(group, flags)
        command(**typed)

    options = list[inspect.Parameter]()
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            assert parameter.default is inspect.Parameter.empty, "the fields have the defaults; this one would be lost"
            options += _options(parameter.name, groups[parameter.name])
        else:
            options.append(_option(parameter.name, hints[parameter.name], parameter.default))
    run_command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run_command.__annotations__ = {option.name: option.annotation for option in options}
    return run_command


def typed_names(context: typer.Context) -> frozenset[str]:
    """Return the names of the parameters that the command line has, as against those with their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


def flag_for(option: OptionField) -> str:
    """Return the flag of an option of a command."""
    return option.flag or flag_of(option.spelling)


def flag_of(field: str) -> str:
    """Return the flag of an option that bodies spell so: `settings.near_tokens` is `--near-tokens`."""
    name = field.rpartition(".")[2].partition("[")[0]
    return _FLAGS.get(name) or (f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}")


def spelled_as_flags(error: Usage) -> Usage:
    """Return an error about an option with its flag."""
    if isinstance(error, BadOptions):
        return error.spelled(flag_of)
    return Usage(error.without_field, remedy=error.remedy, field=flag_of(error.field))


def _made_of(group: type[Any], flags: dict[str, Any]) -> Any:
    """Return the dataclass that the flags spell; those that were not typed keep their defaults."""
    if not issubclass(group, Options):
        return group(**flags)
    texts = dict[str, Any]()
    for option in options_of(group):
        if option.group is not None:
            inner = _inner_flags(option, flags)
            if any(_is_typed(typed, default=False) for typed in inner.values()):
                texts[option.name] = _made_of(option.group, inner)
        elif option.name in flags and _is_typed(flags[option.name], option.default):
            texts[option.name] = flags[option.name]
    return from_texts(group, texts)


def _inner_flags(option: OptionField, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the group in an option, by its own fields."""
    start = f"{option.name}__"
    return {name.removeprefix(start): typed for name, typed in flags.items() if name.startswith(start)}


def _is_typed(typed: Any, default: Any) -> bool:
    return typed not in (None, []) and not (typed is False and default is False)


def _parameters(name: str, group: type[Any]) -> dict[str, str]:
    """Return the parameter of each field; several groups of options may have a field of one name."""
    if issubclass(group, Options):
        return {path: f"{name}__{path}" for path, _ in _flags_in(group)}
    return {field.name: field.name for field in fields(group)}


def _flags_in(group: type[Any], start: str = "") -> Iterator[tuple[str, OptionField]]:
    """Yield the options that have flags, also those of groups inside: `settings__k`."""
    for option in options_of(group):
        if option.group is not None and option.has_flag:
            yield from _flags_in(option.group, f"{start}{option.name}__")
        elif option.has_flag:
            yield f"{start}{option.name}", option


def _file_parameters(name: str, group: type[Any]) -> dict[str, str]:
    """Return the parameters of files that have a name of the list in each line, by the list's field."""
    options = _flags_in(group) if issubclass(group, Options) else ()
    return {path: f"{name}__{path}__file" for path, option in options if option.has_file}


def _options(name: str, group: type[Any]) -> Iterator[inspect.Parameter]:
    parameters = _parameters(name, group)
    if issubclass(group, Options):
        files = _file_parameters(name, group)
        for path, option in _flags_in(group):
            yield _flag(option, parameters[path])
            if option.has_file:
                flag = typer.Option(f"--{option.name.replace('_', '-')}", help=_FILE_HELP, metavar="FILE")
                yield _option(files[path], Annotated[Path | None, flag], None)
        return
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield _option(field.name, hints[field.name], field.default)


def _flag(option: OptionField, parameter: str) -> inspect.Parameter:
    """Return the flag of an option: a text that the decoder reads, so that its limits and messages are those of all."""
    kind = option.kind
    if option.argument is not None:
        is_many = isinstance(kind, ListKind)
        argument = typer.Argument(help=option.doc, metavar=option.argument, rich_help_panel=option.panel)
        kinds = (list[str], list[str] | None) if is_many else (str, str | None)
        return _option(
            parameter, Annotated[kinds[not option.is_required], argument], MISSING if option.is_required else None
        )
    flag, shown_default = flag_for(option), _shown_default(option)
    if isinstance(kind, BoolKind):
        if not option.default:
            flag_alone = typer.Option(flag, help=option.doc, **_place_in_help(option))
            return _option(parameter, Annotated[bool, flag_alone], False)
        annotation: Any = bool | None
        names, metavar = [f"{flag}/--no-{flag[2:]}"], None
    else:
        is_list = isinstance(kind, ListKind | MapKind)
        annotation = list[str] | None if is_list else str | None
        names, metavar = [flag, *_SHORT.get(flag, ())], option.metavar or kind.metavar
    settings = typer.Option(
        *names, help=option.doc, metavar=metavar, show_default=shown_default, **_place_in_help(option)
    )
    return _option(parameter, Annotated[annotation, settings], None)


def _place_in_help(option: OptionField) -> dict[str, Any]:
    return {"rich_help_panel": option.panel, "hidden": option.is_rare}


def _shown_default(option: OptionField) -> Any:
    """Return the default as help shows it."""
    default = option.default
    if default is None or default is False or default in ((), {}):
        return False
    if isinstance(option.kind, SizeKind):
        return size_in_words(default)
    return str(default.value if isinstance(default, Enum) else default)


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a keyword parameter; so a parameter without a default may follow one with a default."""
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=annotation,
    )
