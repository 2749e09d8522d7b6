"""What is wrong in a call to each command and route: an unknown name, a value of another type, a broken limit.

The calls are made from the commands and the document of the API as they are, so that a new operation is here by itself.
Texts are not recorded: an exit code or a status, and the code of the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from goldens.commands import error_code
from goldens.golden_home import command_paths, command_tree, run_command, unpacked
from goldens.services import served

if TYPE_CHECKING:
    from starlette.testclient import TestClient

_NO_OPTION: Final = "--no-such-option"
_NO_FIELD: Final = "no_such_field"
_LONG_RUNNING: Final = {
    ("serve",),
    ("admin", "jobs", "work"),
}  # with a limit that does not hold they would not end


def wrong_commands() -> dict[str, Any]:
    """Make the wrong calls of every command."""
    tree = command_tree()
    answers = {}
    with unpacked():
        for path in command_paths(tree):
            outcomes = {}
            for kind, options in _wrong_options(_at(tree, path), path):
                ended = run_command(["--quiet", "--home", "home", *path, *options])
                outcomes[kind] = {"exit": ended.code, "code": error_code(ended)}
            answers[f"wrong {' '.join(path)}"] = outcomes
    return answers


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree.commands[name]
    return tree


def _wrong_options(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield options that are not there, or have a value of another type, or one beyond a limit."""
    yield "unknown", [_NO_OPTION]
    numbers = [param for param in command.params if param.opts[0].startswith("-") and _is_number(param)]
    if numbers:
        yield "type", [numbers[0].opts[0], "many"]
    limited = [param for param in numbers if param.min is not None]
    if limited and path not in _LONG_RUNNING:
        yield "limit", [f"{limited[0].opts[0]}", f"{limited[0].min - 1:g}"]


def _is_number(param: Any) -> bool:
    return param.type_descriptor is not None and param.type_descriptor.annotation in (int, float)


def wrong_requests() -> dict[str, Any]:
    """Make the wrong requests of every route."""
    answers = {}
    with unpacked() as folder, served(folder / "home") as client:
        document = client.app.openapi()  # type: ignore[attr-defined]
        models = document["components"]["schemas"]
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                outcomes = dict(_wrong_answers(client, method.upper(), path, operation, models))
                if outcomes:
                    answers[f"wrong {operation['operationId']}"] = outcomes
    return answers


def _wrong_answers(
    client: TestClient, method: str, path: str, operation: Mapping[str, Any], models: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    address = path.replace("{place}", "0").replace("{", "").replace("}", "")
    for parameter in operation.get("parameters", ()):
        limited = [schema for schema in _choices(parameter["schema"]) if "minimum" in schema]
        if parameter["in"] == "query" and limited:
            for kind, text in (("type", "many"), ("limit", str(limited[0]["minimum"] - 1))):
                yield (
                    f"query {kind}",
                    _outcome(client.request(method, address, params={parameter["name"]: text}), parameter["name"]),
                )
            break
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        yield "unknown", _outcome(client.request(method, address, json={_NO_FIELD: 1}), _NO_FIELD)
        yield "type", _outcome(client.request(method, address, json=[]), "")
        for name, schema in _fields(body, models):
            limited = [choice for choice in _choices(schema) if "minimum" in choice]
            if limited:
                yield "limit", _outcome(client.request(method, address, json={name: limited[0]["minimum"] - 1}), name)
                break


def _choices(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(schema.get("anyOf", [schema]))


def _fields(schema: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the fields of a body, or those of its first choice."""
    while "$ref" in schema or "oneOf" in schema:
        schema = models[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema["oneOf"][0]
    yield from schema.get("properties", {}).items()


def _outcome(response: Any, name: str) -> dict[str, Any]:
    """Return how a request ended, and whether an error names what is wrong with it."""
    problem = response.json()
    fields = [str(error.get("field")) for error in problem.get("errors", ())]
    is_named = any(name in field for field in fields)
    return {"status": response.status_code, "code": problem.get("code"), "is_named": is_named}
