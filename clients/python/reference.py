"""docs/reference/client.md from the library itself: `python clients/python/reference.py [--check] FILE`."""

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
from refaug_client import _client, _errors, _items, _models, _pending, _rewards, _scorer

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
    """The whole page."""
    return _HEAD + "".join(
        [
            *_of_classes("Clients", [refaug_client.Client, *_nouns()]),
            *_of_classes("While a model trains", [_scorer.Scorer, _pending.Pending, _pending.Outcome, _pending.Counts]),
            *_of_classes("Rewards", [_rewards.Reward, _rewards.RewardCounts]),
            *_of_classes("Connecting", [refaug_client.Retry]),
            *_of_classes("Items", list(_defined(_items)), _aliases()),
            *_of_classes("Results", [*_defined(_models), *_elsewhere()]),
            *_of_classes("Errors", list(_defined(_errors)), _ERRORS),
            *_integrations(),
        ]
    )


def _nouns() -> list[type]:
    """What is behind `client.sets` and its like, in the order in which a client has them."""
    client = refaug_client.Client("http://127.0.0.1:8000")
    return [type(value) for value in vars(client).values() if type(value).__module__ == _client.__name__]


def _elsewhere() -> list[type]:
    """Results that the library exports from other modules than that of the models."""
    modules = [_client, _pending, _rewards, _scorer, _items, _models, _errors]
    known = {module.__name__ for module in modules} | {
        refaug_client.Retry.__module__,
        refaug_client.AsyncClient.__module__,
    }
    exported = (getattr(refaug_client, name) for name in refaug_client.__all__)
    return [value for value in exported if inspect.isclass(value) and value.__module__ not in known]


def _defined(module: Any) -> Iterator[type]:
    """Classes for others to see, in the order of the source."""
    for name, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield value


def _aliases() -> str:
    """What the short names of types stand for."""
    tree = ast.parse(inspect.getsource(_items))
    named = {one.targets[0].id: one.value for one in tree.body if isinstance(one, ast.Assign)}  # type: ignore[attr-defined]
    rows = [f"| `{name}` | `{_escaped(ast.unparse(value))}` |\n" for name, value in named.items()]
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
    """The class that an error is a kind of, as the heading says it."""
    base = kind.__mro__[1]
    return f" ({base.__name__})" if issubclass(kind, BaseException) and base is not Exception else ""


def _fields(kind: type) -> str:
    """A table of what an object has, with the comments beside it in the source."""
    if is_dataclass(kind):
        named = {one.name: str(one.type) for one in fields(kind)}
    elif kind.__module__ == _items.__name__:
        named = {name: _plain(hint) for name, hint in kind.__annotations__.items()}
    else:
        return ""
    said = _comments(kind)
    rows = [f"| `{name}` | `{_escaped(hint)}` | {said.get(name, '')} |\n" for name, hint in named.items()]
    return "\n| field | type | |\n| --- | --- | --- |\n" + "".join(rows)


def _plain(hint: Any) -> str:
    said = hint if isinstance(hint, str) else str(getattr(hint, "__forward_arg__", hint))
    return re.sub(r"\b(?:models|collections\.abc|typing)\.", "", said)


def _comments(kind: type) -> dict[str, str]:
    """Comments at the ends of the lines that declare fields."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        if one.__module__.startswith(refaug_client.__name__):
            source = inspect.getsource(one)
            found |= {
                match[1]: match[2][:1].upper() + match[2][1:].rstrip(".") + "."
                for match in re.finditer(r"^    (\w+): [^#\n]*?  # (?!noqa|type:)(.*)$", source, re.MULTILINE)
            }
    return found


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of ours, inherited ones too, first those of the class itself."""
    seen = {one.name for one in fields(kind)} if is_dataclass(kind) else set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith(refaug_client.__name__) or owner in (_models.Model, _errors.RefaugError):
            continue
        for name, member in vars(owner).items():
            wanted = isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member)
            hidden = (name.startswith("_") and name not in ("__call__", "__getitem__")) or name == "forked"
            if wanted and not hidden and name not in seen:
                seen.add(name)
                yield name, member


def _member(kind: type, name: str, member: Any) -> str:
    if isinstance(member, property):
        hint = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        hint = "" if hint is inspect.Signature.empty else f": `{_plain(hint)}`"
        return f"\n**`{kind.__name__}.{name}`**{hint}\n\n{_prose(member.__doc__)}"
    bound = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
    if not bound.__doc__ and name.startswith("__"):
        return ""
    parameters = inspect.signature(bound)
    if not isinstance(member, staticmethod):
        parameters = parameters.replace(parameters=list(parameters.parameters.values())[1:])
    return f"\n#### {kind.__name__}.{name}\n{_block(f'{kind.__name__}.{name}', parameters)}\n{_prose(bound.__doc__)}"


def _block(name: str, signature: inspect.Signature) -> str:
    """How something is called."""
    result = signature.return_annotation
    said = [_parameter(one) for one in signature.parameters.values()]
    named = [place for place, one in enumerate(signature.parameters.values()) if one.kind is one.KEYWORD_ONLY]
    if named and not any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()):
        said.insert(named[0], "*")
    return _call(name, said, "" if result in (inspect.Signature.empty, None, "None") else _plain(result))


def _call(name: str, said: list[str], result: str) -> str:
    """A signature, on as many lines as it takes."""
    ends = f" -> {result}" if result else ""
    line = f"{name}({', '.join(said)}){ends}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in said) + f"){ends}"
    return f"\n```python\n{line}\n```\n"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    hint = "" if one.annotation is one.empty else f": {_plain(one.annotation)}"
    value = "..." if callable(one.default) else repr(one.default)  # a function's repr is another one each time
    default = "" if one.default is one.empty else f" = {value}" if hint else f"={value}"
    return f"{stars}{one.name}{hint}{default}"


def _prose(doc: str | None) -> str:
    """A docstring as Markdown: what is indented in it, or is nothing but code, becomes a block of code."""
    paragraphs: list[str] = []
    for text in re.split(r"\n\s*\n", inspect.cleandoc(doc or "")):
        is_code = text.startswith("    ") or _is_code(text)
        if is_code and paragraphs and paragraphs[-1].startswith("```python"):
            paragraphs[-1] = paragraphs[-1].removesuffix("\n```") + f"\n\n{textwrap.dedent(text)}\n```"
        else:
            paragraphs.append(f"```python\n{textwrap.dedent(text)}\n```" if is_code else _lines(text))
    return "\n\n".join(paragraphs) + "\n" if doc else ""


def _is_code(text: str) -> bool:
    """Whether a paragraph is Python: prose hardly ever can be parsed, and then has neither call nor assignment."""
    try:
        tree = ast.parse(text.replace("…", "..."))
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Call, ast.Assign, ast.With)) for node in ast.walk(tree))


def _lines(text: str) -> str:
    """A paragraph on one line; one whose lines are `word   what it means` as a list."""
    rows = [re.fullmatch(r"(\w+) {2,}(.*)", line) for line in text.splitlines()]
    if all(rows):
        return "\n".join(f"- `{row[1]}`: {row[2]}" for row in rows if row)
    return " ".join(text.split())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _integrations() -> Iterator[str]:
    """The adapters, by their source: their frameworks are not installed where this page is made."""
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
    """How it is called."""
    made: ast.FunctionDef | None = node if isinstance(node, ast.FunctionDef) else None
    if isinstance(node, ast.ClassDef):
        made = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if made is None:
        return ""
    given = made.args
    places = given.args[1:] if isinstance(node, ast.ClassDef) else given.args
    defaults: list[ast.expr | None] = [None] * (len(places) - len(given.defaults))
    said = [_argument(one, default) for one, default in zip(places, [*defaults, *given.defaults])]
    said += ["*"] if given.kwonlyargs and not given.vararg else [f"*{_argument(given.vararg)}"] if given.vararg else []
    said += [_argument(one, default) for one, default in zip(given.kwonlyargs, given.kw_defaults)]
    said += [f"**{_argument(given.kwarg)}"] if given.kwarg else []
    result = "" if isinstance(node, ast.ClassDef) or made.returns is None else ast.unparse(made.returns)
    return _call(node.name, said, result)


def _argument(one: ast.arg, default: ast.expr | None = None) -> str:
    hint = "" if one.annotation is None else f": {ast.unparse(one.annotation)}"
    return f"{one.arg}{hint}" + ("" if default is None else f"{' = ' if hint else '='}{ast.unparse(default)}")


def main(arguments: list[str]) -> int:
    """Write the page, or say whether the one that is there is current."""
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
