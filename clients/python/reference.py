"""Write docs/reference/client.md from the library: `python clients/python/reference.py [--check] FILE`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import refaug_client
from refaug_client._api import items as request_types
from refaug_client._api import retrieval
from refaug_client._api.methods import Method, Resource
from refaug_client._api.models import (
    artefacts,
    base,
    evaluations,
    jobs,
    references,
    replies,
    scores,
    server,
    sets,
    studies,
)
from refaug_client._core import errors
from refaug_client._scorer import pending, rewards, scorer

RESULTS = (
    base,
    references,
    replies,
    scores,
    sets,
    studies,
    evaluations,
    artefacts,
    jobs,
    server,
)
INTEGRATIONS = Path(refaug_client.__file__).parent / "integrations"
_HEAD = """# The library `refaug_client`

Generated from the library by `make docs`; `make check` and a test compare it with the library.

[Scores from Python](../sdk.md) is the page to begin with. `AsyncClient` has every method of `Client`, with `await`;
where one of them is a generator, its is an async generator. Every result has `to_dict()`, the object as it came over
the wire, and `more`, the fields in it that this version of the library does not know. What is `Optional` may be `None`.
What a request may hold, and the limits of it, is in [the reference of the API](api.md).
"""
_ERRORS = """
Every error has `message`, `remedy` (what would help), `request_id` (the name of the request in the server's log),
`status` (of the answer, if there was one) and `tries` (how often it was sent); behind a name stands the error that it
is a kind of. [The errors of the server](errors.md) are those of `Problem.code`.
"""
_WIDTH = 100


def client_reference() -> str:
    """Return the whole page."""
    return _HEAD + "".join(
        [
            *_of_classes("Clients", [refaug_client.Client, *_resources()]),
            *_of_classes("While a model trains", [scorer.Scorer, pending.Pending, pending.Outcome, pending.Counts]),
            *_of_classes("Rewards", [rewards.Reward, rewards.RewardCounts]),
            *_of_classes("Connecting", [refaug_client.Retry]),
            *_of_classes("Items", [*_classes_of(request_types), retrieval.Retrieval], _aliases()),
            *_of_classes("Results", [*_results(), *_other_exports()]),
            *_of_classes("Errors", list(_classes_of(errors)), _ERRORS),
            *_integrations(),
        ]
    )


def _resources() -> list[type]:
    """Return the classes of `client.sets` and the like, in the order in which a client has them."""
    attributes = vars(refaug_client.Client("http://127.0.0.1:8000")).values()
    return [type(attribute) for attribute in attributes if isinstance(attribute, Resource)]


def _results() -> Iterator[type]:
    """Yield the classes that answers are read as."""
    for module in RESULTS:
        for kind in _classes_of(module):
            if not issubclass(kind, Exception):
                yield kind


def _other_exports() -> list[type]:
    """Return exported results that are defined elsewhere than with the models."""
    modules = [pending, rewards, scorer, request_types, retrieval, *RESULTS, errors]
    listed = {module.__name__ for module in modules} | {refaug_client.Retry.__module__}
    clients = (refaug_client.Client, refaug_client.AsyncClient, refaug_client.AsyncStream)
    exported = (getattr(refaug_client, name) for name in refaug_client.__all__)
    kinds = [kind for kind in exported if inspect.isclass(kind) and kind not in clients]
    return [kind for kind in kinds if kind.__module__ not in listed]


def _classes_of(module: Any) -> Iterator[type]:
    """Yield the public classes of a module, in the order of its source."""
    for name, member in vars(module).items():
        if inspect.isclass(member) and member.__module__ == module.__name__ and not name.startswith("_"):
            yield member


def _aliases() -> str:
    """Return the table of what the short names of types stand for."""
    tree = ast.parse(inspect.getsource(request_types))
    aliases = {
        statement.targets[0].id: statement.value  # type: ignore[attr-defined]
        for statement in tree.body
        if isinstance(statement, ast.Assign)
    }
    rows = [f"| `{name}` | `{_escaped(ast.unparse(hint))}` |\n" for name, hint in aliases.items()]
    return "\n| in a signature | stands for |\n| --- | --- |\n" + "".join(rows)


def _of_classes(title: str, kinds: list[type], more: str = "") -> Iterator[str]:
    yield f"\n## {title}\n{more}"
    for kind in kinds:
        yield f"\n### {kind.__name__}{_below(kind)}\n\n{_prose(kind.__doc__)}"
        if kind in (refaug_client.Client, refaug_client.Retry):  # everything else is made by a client
            yield _block(kind.__name__, inspect.signature(kind))
        yield _fields(kind)
        for name, member in _members(kind):
            yield _member(kind, name, member)


def _below(kind: type) -> str:
    """Return the base class of an error, as it stands in the heading."""
    base = kind.__mro__[1]
    return f" ({base.__name__})" if issubclass(kind, BaseException) and base is not Exception else ""


def _fields(kind: type) -> str:
    """Return a table of the fields of an object, with the comments beside them in the source."""
    if is_dataclass(kind):
        named = {one.name: str(one.type) for one in fields(kind)}
    elif kind.__module__ in (request_types.__name__, retrieval.__name__):
        named = {name: _plain(hint) for name, hint in kind.__annotations__.items()}
    else:
        return ""
    comments = _comments(kind)
    rows = [f"| `{name}` | `{_escaped(hint)}` | {comments.get(name, '')} |\n" for name, hint in named.items()]
    return "\n| field | type | |\n| --- | --- | --- |\n" + "".join(rows)


def _plain(hint: Any) -> str:
    hint_text = hint if isinstance(hint, str) else str(getattr(hint, "__forward_arg__", hint))
    return re.sub(r"\b(?:models|collections\.abc|typing)\.", "", hint_text)


def _comments(kind: type) -> dict[str, str]:
    """Return the comments at the ends of the lines that declare fields, or above them, by field."""
    comments: dict[str, str] = {}
    for owner in reversed(kind.__mro__[:-1]):
        if owner.__module__.startswith(refaug_client.__name__):
            source = inspect.getsource(owner)
            beside = re.findall(r"^    (\w+): [^#\n]*?  # (?!noqa|type:)(.*)$", source, re.MULTILINE)
            above = re.findall(r"((?:^    # .*\n)+)    (\w+): ", source, re.MULTILINE)
            comments |= {name: text[:1].upper() + text[1:].rstrip(".") + "." for name, text in beside}
            comments |= {name: " ".join(lines.replace("#", "").split()) for lines, name in above}
    return comments


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield methods and properties, inherited ones of the library too: its own first, but of a client last."""
    seen = {one.name for one in fields(kind)} if is_dataclass(kind) else set()
    for owner in reversed(kind.__mro__) if issubclass(kind, Resource) else kind.__mro__:
        if not owner.__module__.startswith(refaug_client.__name__) or owner in (base.Model, errors.RefaugError):
            continue
        for name, member in vars(owner).items():
            is_member = isinstance(member, (property, classmethod, staticmethod, Method)) or inspect.isfunction(member)
            hidden = (name.startswith("_") and name not in ("__call__", "__getitem__")) or name == "forked"
            if is_member and not hidden and name not in seen:
                seen.add(name)
                yield name, member


def _member(kind: type, name: str, member: Any) -> str:
    if isinstance(member, property):
        hint = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        hint = "" if hint is inspect.Signature.empty else f": `{_plain(hint)}`"
        return f"\n**`{kind.__name__}.{name}`**{hint}\n\n{_prose(member.__doc__)}"
    bound = getattr(kind, name) if isinstance(member, Method) else getattr(member, "__func__", member)
    if not bound.__doc__ and name.startswith("__"):
        return ""
    parameters = inspect.signature(bound)
    if not isinstance(member, staticmethod):
        parameters = parameters.replace(parameters=list(parameters.parameters.values())[1:])
    return f"\n#### {kind.__name__}.{name}\n{_block(f'{kind.__name__}.{name}', parameters)}\n{_prose(bound.__doc__)}"


def _block(name: str, signature: inspect.Signature) -> str:
    """Return the block that shows how something is called."""
    returned = signature.return_annotation
    parameters = [_parameter(one) for one in signature.parameters.values()]
    named = [place for place, one in enumerate(signature.parameters.values()) if one.kind is one.KEYWORD_ONLY]
    if named and not any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()):
        parameters.insert(named[0], "*")
    return _call(name, parameters, "" if returned in (inspect.Signature.empty, None, "None") else _plain(returned))


def _call(name: str, parameters: list[str], returned: str) -> str:
    """Return a signature, on several lines where it is long."""
    ends = f" -> {returned}" if returned else ""
    line = f"{name}({', '.join(parameters)}){ends}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){ends}"
    return f"\n```python\n{line}\n```\n"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    hint = "" if parameter.annotation is parameter.empty else f": {_plain(parameter.annotation)}"
    default_text = (
        "..." if callable(parameter.default) else repr(parameter.default)
    )  # the repr of a function differs each time
    default = "" if parameter.default is parameter.empty else f" = {default_text}" if hint else f"={default_text}"
    return f"{stars}{parameter.name}{hint}{default}"


def _prose(doc: str | None) -> str:
    """Return a docstring as Markdown: paragraphs that are indented, or are Python, become blocks of code."""
    paragraphs: list[str] = []
    for text in re.split(r"\n\s*\n", inspect.cleandoc(doc or "")):
        is_code = text.startswith("    ") or _is_code(text)
        if is_code and paragraphs and paragraphs[-1].startswith("```python"):
            paragraphs[-1] = paragraphs[-1].removesuffix("\n```") + f"\n\n{textwrap.dedent(text)}\n```"
        else:
            paragraphs.append(f"```python\n{textwrap.dedent(text)}\n```" if is_code else _lines(text))
    return "\n\n".join(paragraphs) + "\n" if doc else ""


def _is_code(text: str) -> bool:
    """Whether a paragraph is Python: prose can hardly ever be parsed, and then has neither call nor assignment."""
    try:
        tree = ast.parse(text.replace("…", "..."))
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Call, ast.Assign, ast.With)) for node in ast.walk(tree))


def _lines(text: str) -> str:
    """Return a paragraph on one line; lines of the form `word   what it means` become a list, and lists stay lists."""
    if all(line.startswith("- ") for line in text.splitlines()):
        return text
    rows = [re.fullmatch(r"(\w+) {2,}(.*)", line) for line in text.splitlines()]
    if all(rows):
        return "\n".join(f"- `{row[1]}`: {row[2]}" for row in rows if row)
    return " ".join(text.split())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _integrations() -> Iterator[str]:
    """Yield the adapters from their source, since their frameworks are not installed where this page is made."""
    yield "\n## Integrations\n"
    for path in sorted(INTEGRATIONS.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if path.stem == "__init__":
            yield f"\n{_prose(ast.get_docstring(tree))}"
            continue
        yield f"\n### refaug_client.integrations.{path.stem}\n\n{_prose(ast.get_docstring(tree))}"
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                yield f"\n#### {path.stem}.{node.name}\n{_source_block(node)}\n{_prose(ast.get_docstring(node))}"


def _source_block(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the block that shows how a class or function of the source is called."""
    function: ast.FunctionDef | None = node if isinstance(node, ast.FunctionDef) else None
    if isinstance(node, ast.ClassDef):
        function = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if function is None:
        return ""
    signature = function.args
    places = signature.args[1:] if isinstance(node, ast.ClassDef) else signature.args
    defaults: list[ast.expr | None] = [None] * (len(places) - len(signature.defaults))
    parameters = [_argument(one, default) for one, default in zip(places, [*defaults, *signature.defaults])]
    parameters += (
        ["*"]
        if signature.kwonlyargs and not signature.vararg
        else [f"*{_argument(signature.vararg)}"]
        if signature.vararg
        else []
    )
    parameters += [_argument(one, default) for one, default in zip(signature.kwonlyargs, signature.kw_defaults)]
    parameters += [f"**{_argument(signature.kwarg)}"] if signature.kwarg else []
    returned = "" if isinstance(node, ast.ClassDef) or function.returns is None else ast.unparse(function.returns)
    return _call(node.name, parameters, returned)


def _argument(argument: ast.arg, default: ast.expr | None = None) -> str:
    hint = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    return f"{argument.arg}{hint}" + ("" if default is None else f"{' = ' if hint else '='}{ast.unparse(default)}")


def main(arguments: list[str]) -> int:
    """Write the page; with --check, return 1 where the file is not up to date."""
    if not arguments or arguments[-1].startswith("-"):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    check, path = arguments[:-1] == ["--check"], Path(arguments[-1])
    page = client_reference()
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, "utf-8")
        return 0
    if path.exists() and path.read_text("utf-8") == page:
        return 0
    sys.stderr.write(f"{path} is not what the library says: run make docs\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
