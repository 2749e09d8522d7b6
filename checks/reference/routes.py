"""docs/reference/api.md, from the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from refaug.core.home import Settings
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app
from refaug.service.web.openapi import examples
from refaug.service.web.problems import code_meanings

Schema = Mapping[str, Any]

_HEAD: Final = """# The HTTP API

Generated from the OpenAPI document of the service by `make docs`; `make check` and a test compare it with that. The
service shows the same at `/docs`, where requests can be sent, and gives the document itself at `/openapi.json`.
[Service](../service.md) tells how it is begun and how it fits together, [settings](settings.md) has its limits,
[items](../items.md) what items look like.

{description}
Every `GET` can be asked with `HEAD`; a method that a path has not is 405 `method_not_allowed`, and `Allow` has those it
has. Lists come in pages: `next` is the `after` of the page that follows, and null on the last one. The examples were
answered by a service over a log of six pairs, with a rater that was taught nothing; of longer lists they have the first
three.

"""
_ADDRESS: Final = "http://127.0.0.1:8000"
# Headers that middleware reads and sets; those of single routes are in the document.
_REQUEST_HEADERS: Final[Mapping[str, str]] = {
    "Authorization": "`Bearer` and a key, where keys are required.",
    "X-API-Key": "The same key in another header.",
    "X-Request-Id": "Names the request: up to 64 letters, digits, dots, dashes and underscores; else it gets one.",
    "Content-Encoding": "`gzip`: the body is packed.",
    "Accept-Encoding": "`gzip`: the answer may be packed.",
    "Range": "Of a download, the part that is wanted.",
}
_ANSWER_HEADERS: Final[Mapping[str, str]] = {
    "Allow": "With 405: the methods that the path has.",
    "Content-Encoding": "`gzip`: the answer is packed.",
}
_FIRST_ERROR: Final = 400
_FIELDS: Final = ("field", "type", "default", "limits", "meaning")


def api_reference() -> str:
    """Return the whole page."""
    document = create_app(Settings(), ServeSettings()).openapi()
    parts = [
        _HEAD.format(description=document["info"]["description"]),
        _contents(document),
        _headers(document),
        _errors(document),
    ]
    for tag in document["tags"]:
        parts.append(f"\n## {_title(tag['name'])}\n\n{tag['description']}\n")
        parts += [_route(document, *one) for one in _operations(document) if tag["name"] in one[2]["tags"]]
    return "".join([*parts, _models(document)])


def _operations(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


# ── Contents, headers, errors ─────────────────────────────────────────────────────────────────────────────────────────


def _contents(document: Schema) -> str:
    rows = [
        (f"[{method} {path}](#{_anchor(f'{method} {path}')})", _first_line(operation["description"]))
        for method, path, operation in _operations(document)
    ]
    return _table(("route", "what it does"), rows)


def _headers(document: Schema) -> str:
    request_headers, answer_headers = dict(_REQUEST_HEADERS), dict(_ANSWER_HEADERS)
    for _, _, operation in _operations(document):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "header":
                request_headers[_spell_header(parameter["name"])] = _sentence(parameter["description"])
        for answer in operation["responses"].values():
            answer_headers |= {name: header["description"] for name, header in answer["headers"].items()}
    tables = [
        _table(("header", "meaning"), [(f"`{name}`", said) for name, said in sorted(of.items())])
        for of in (request_headers, answer_headers)
    ]
    return f"\n## Headers\n\nOf requests:\n\n{tables[0]}\nOf answers:\n\n{tables[1]}"


def _errors(document: Schema) -> str:
    statuses = {
        status: answer["description"]
        for _, _, operation in _operations(document)
        for status, answer in operation["responses"].items()
        if int(status) >= _FIRST_ERROR
    }
    codes = [(f"`{code}`", str(told["status"]), _sentence(told["title"])) for code, told in code_meanings().items()]
    return (
        "\n## Errors\n\nEvery error is a [problem](#problemout) of type `application/problem+json`, and never has "
        "status 200. Each route names those that it may answer with:\n\n"
        f"{_table(('status', 'meaning'), sorted(statuses.items()))}\n"
        "A `code` never changes its meaning; `GET /problems/{code}` tells it, and [errors](errors.md) what to do.\n\n"
        f"{_table(('code', 'usual status', 'meaning'), codes)}"
    )


# ── Routes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _route(document: Schema, method: str, path: str, operation: Schema) -> str:
    parts = [f"\n### {method} {path}\n\n{operation['description']}\n"]
    if parameters := operation.get("parameters"):
        rows = [_parameter(one) for one in parameters]
        parts.append(f"\n{_table(('parameter', 'in', *_FIELDS[1:]), rows)}")
    if "requestBody" in operation:
        parts.append(_body(document, operation["requestBody"]))
    parts.append(f"\n{_example(method, operation)}")
    good = {status: answer for status, answer in operation["responses"].items() if int(status) < _FIRST_ERROR}
    rows = [(status, *_answer(answer)) for status, answer in good.items()]
    parts.append(f"\n{_table(('status', 'answer', 'meaning'), rows)}")
    bad = [_error(status, answer) for status, answer in operation["responses"].items() if status not in good]
    parts.append(f"\nErrors: {', '.join(bad)}.\n")
    return "".join(parts)


def _error(status: str, answer: Schema) -> str:
    """Return a status with the codes that its description names."""
    description = answer["description"]
    codes = [one for one in dict.fromkeys(re.findall("`([^`]+)`", description)) if one in code_meanings()]
    shown = codes[:1] if "others" in description else codes  # which of the others depends on the route
    return " ".join([status, *(f"`{one}`" for one in shown)])


def _parameter(parameter: Schema) -> tuple[str, ...]:
    name = _spell_header(parameter["name"]) if parameter["in"] == "header" else parameter["name"]
    return (
        f"`{name}`",
        parameter["in"],
        *_describe_field(parameter["schema"], required=parameter["required"], description=parameter["description"]),
    )


def _body(document: Schema, body: Schema) -> str:
    """Return the model of a JSON body with its fields, or the type of the bytes of a file."""
    ((kind, content),) = body["content"].items()
    if kind != "application/json":
        return f"\nThe body, `{kind}`: {body['description']}.\n"
    name = _name_of(content["schema"])
    model = document["components"]["schemas"][name]
    heading = f"\nThe body, `{name}`: {_sentence(model['description'], capital=False)}\n"
    return f"{heading}\n{_fields(model)}"


def _example(method: str, operation: Schema) -> str:
    example = examples()[operation["operationId"]]
    lines = ["curl"] + ([] if method == "GET" else [f"-X {method}"]) + [f"'{_ADDRESS}{example['path']}'"]
    if "answer" not in example:
        lines.append("-O")
    command = " ".join(lines)
    if "body" in example:
        body = _json(example["body"]).replace("'", "'\\''")
        command += f" \\\n  -H 'Content-Type: application/json' -d '{body}'"
    elif "requestBody" in operation:
        (kind,) = operation["requestBody"]["content"]
        command += f" \\\n  -H 'Content-Type: {kind}' --data-binary @table.csv"
    shown = f"```sh\n{command}\n```\n"
    if "answer" not in example:
        return shown
    is_text = isinstance(example["answer"], str)
    answer = example["answer"].rstrip() if is_text else _json(example["answer"])
    return f"{shown}\n```{'text' if is_text else 'json'}\n{answer}\n```\n"


def _answer(answer: Schema) -> tuple[str, str]:
    kinds = []
    for kind, content in answer.get("content", {}).items():
        is_model = "$ref" in content["schema"]
        kinds.append(_type(content["schema"]) if is_model else f"`{kind}`")
    headers = [f"`{name}`" for name in answer["headers"] if name != "X-Request-Id"]
    description = _sentence(answer["description"]).replace("Successful Response.", "")
    return " or ".join(kinds), description + (f" Headers: {', '.join(headers)}." if headers else "")


# ── Models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _models(document: Schema) -> str:
    """Return all models that routes and other models link to; bodies of routes stand at their routes."""
    schemas = document["components"]["schemas"]
    linked = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps([schemas, _responses_of(document)])))
    parts = ["\n## Models\n\nWhat bodies and answers are made of. Answers may have more fields than these.\n"]
    for name in sorted(linked):
        model = schemas[name]
        parts.append(f"\n### {name}\n\n{_sentence(model.get('description', ''))}\n\n{_fields(model)}")
    return "".join(parts)


def _responses_of(document: Schema) -> list[Any]:
    return [operation["responses"] for _, _, operation in _operations(document)]


def _fields(model: Schema) -> str:
    if "properties" not in model:
        return f"{_sentence(_type(model))}\n"
    required = model.get("required", [])
    rows = [
        (f"`{name}`", *_describe_field(schema, required=name in required, description=schema.get("description", "")))
        for name, schema in model["properties"].items()
    ]
    return _table(_FIELDS, rows)


def _describe_field(schema: Schema, *, required: bool, description: str) -> tuple[str, str, str, str]:
    kind = _type(schema)
    default = "required" if required else ""
    if not required and ("default" in schema or kind.endswith("null")):  # the document omits null defaults
        default = f"`{_json(schema.get('default'), indent=None)}`"
    return kind, default, ", ".join(_limits(schema)), _sentence(description)


def _type(schema: Schema) -> str:
    """Return a schema in words."""
    if "$ref" in schema:
        name = _name_of(schema)
        return f"[{name}](#{_anchor(name)})"
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{_json(one, indent=None)}`" for one in schema.get("enum", [schema.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    kinds = schema.get("type", [])
    return " or ".join(_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "anything"


def _kind(kind: str, schema: Schema) -> str:
    if kind == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object: {_type(inner)} by name" if isinstance(inner, Mapping) and inner else "object"
    if kind == "string" and schema.get("format") == "date-time":
        return "time (ISO 8601)"
    return {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(kind, kind)


_LIMITS: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
    "minProperties": "at least {} of them",
    "maxProperties": "at most {} of them",
}


def _limits(schema: Schema) -> Iterator[str]:
    for key, wording in _LIMITS.items():
        if key in schema:
            yield wording.format(f"{schema[key]:,}").replace(" 1 characters", " 1 character")
    if "pattern" in schema:
        yield f"as `{schema['pattern']}`"
    for inner in schema.get("anyOf", []):
        yield from _limits(inner)
    if isinstance(schema.get("items"), Mapping):
        yield from (f"each {one}" for one in _limits(schema["items"]))


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *[[_cell(one) for one in row] for row in rows]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _json(document: Any, *, indent: int | None = 2) -> str:
    """Return JSON for reading: whatever fits on a line stands on one."""
    return _write_json(document, indent) if indent else json.dumps(document, ensure_ascii=False)


def _write_json(document: Any, indent: int, at: int = 0) -> str:
    flat = json.dumps(document, ensure_ascii=False)
    if not isinstance(document, dict | list) or not document or len(flat) + at <= _WIDTH:
        return flat
    pad = " " * (at + indent)
    if isinstance(document, dict):
        inner = [f"{pad}{json.dumps(name)}: {_write_json(one, indent, at + indent)}" for name, one in document.items()]
        return "{\n" + ",\n".join(inner) + "\n" + " " * at + "}"
    inner = [pad + _write_json(one, indent, at + indent) for one in document]
    return "[\n" + ",\n".join(inner) + "\n" + " " * at + "]"


_WIDTH: Final = 100


def _name_of(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _anchor(heading: str) -> str:
    """Return the anchor that Markdown renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _spell_header(header: str) -> str:
    return "-".join(
        "ID" if part == "id" and header.startswith("last") else part.capitalize() for part in header.split("-")
    )


def _title(tag: str) -> str:
    return tag.replace("-", " ").capitalize()


def _first_line(text: str) -> str:
    return text.partition("\n\n")[0]


def _sentence(text: str, *, capital: bool = True) -> str:
    sentence = " ".join(text.split())
    sentence = (sentence[:1].upper() if capital else sentence[:1].lower()) + sentence[1:]
    return sentence if not sentence or sentence.endswith((".", "!", "?", ":")) else f"{sentence}."
