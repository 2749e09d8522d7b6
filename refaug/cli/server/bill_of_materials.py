"""The software bill of materials of an environment: CycloneDX JSON of the packages that are installed beside refaug.

    python -m refaug.cli.server.bill_of_materials > sbom.cdx.json

The image has it at /opt/refaug/share/refaug/sbom.cdx.json. The same packages give the same bytes: it has no time in it.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterable
from importlib import metadata
from typing import Final

import orjson
from packaging.requirements import Requirement

_NAME: Final = "refaug"
_SPEC: Final = "1.6"
_NOT_SHIPPED: Final = frozenset({"all", "dev"})  # extras
_NAMESPACE: Final = uuid.UUID("6f0d3c8e-6f0c-5b0e-9a53-7d6a3e0d2f11")  # drawn once, for serial numbers
_MOST_LICENCE_CHARS: Final = 100  # a longer field is the text of a licence


def bill_of_materials(distributions: Iterable[metadata.Distribution] | None = None) -> dict[str, object]:
    """Return the bill of the packages that refaug needs and that are installed, in the order of their names."""
    every = metadata.distributions() if distributions is None else distributions
    installed = {_canonical(package.metadata["Name"]): package for package in every}
    needed = {name: _needs(installed[name], installed) for name in _reachable(_NAME, installed)}
    components = {name: _component(name, installed[name]) for name in sorted(needed)}
    main = components.pop(_NAME)
    bill: dict[str, object] = {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {"component": {**main, "type": "application"}},
        "components": list(components.values()),
        "dependencies": [
            {
                "ref": _reference(name, installed[name]),
                "dependsOn": [_reference(one, installed[one]) for one in needed[name]],
            }
            for name in sorted(needed)
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, orjson.dumps(bill).decode())
    return {**bill, "serialNumber": f"urn:uuid:{serial}"}


def _reachable(name: str, installed: dict[str, metadata.Distribution]) -> set[str]:
    """Return the packages that one leads to through its requirements, with those that come by an extra."""
    reached, waiting = set[str](), [name]
    while waiting:
        if (next_name := waiting.pop()) not in reached:
            reached.add(next_name)
            waiting += _needs(installed[next_name], installed)
    return reached


def _needs(package: metadata.Distribution, installed: dict[str, metadata.Distribution]) -> list[str]:
    """Return the installed packages that a package asks for here; of refaug's own extras, all but the developers'."""
    names, extras = set[str](), [""]
    if _canonical(package.metadata["Name"]) == _NAME:
        extras += [extra for extra in package.metadata.get_all("Provides-Extra") or () if extra not in _NOT_SHIPPED]
    for text in package.requires or ():
        requirement = Requirement(text)
        name, marker = _canonical(requirement.name), requirement.marker
        is_asked = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        if is_asked and name in installed and name != _NAME:
            names.add(name)
            names.update(_of_extras(installed[name], requirement.extras, installed))
    return sorted(names)


def _of_extras(
    package: metadata.Distribution, extras: Iterable[str], installed: dict[str, metadata.Distribution]
) -> set[str]:
    """Return the installed packages that come with the extras that are asked for."""
    names = set[str]()
    for text in package.requires or ():
        requirement = Requirement(text)
        environments = [{"extra": extra} for extra in extras]
        is_meant = requirement.marker is not None and any(map(requirement.marker.evaluate, environments))
        if is_meant and _canonical(requirement.name) in installed:
            names.add(_canonical(requirement.name))
    return names


def _component(name: str, package: metadata.Distribution) -> dict[str, object]:
    component: dict[str, object] = {
        "type": "library",
        "bom-ref": _reference(name, package),
        "name": name,
        "version": package.version,
        "purl": _reference(name, package),
    }
    if licences := _licences(package):
        component["licenses"] = licences
    return component


def _licences(package: metadata.Distribution) -> list[dict[str, object]]:
    """Return the licence as the package states it: an expression, or a name."""
    facts = package.metadata
    if expression := _field(package, "License-Expression"):
        return [{"expression": expression}]
    if (text := _field(package, "License").strip()) and len(text) <= _MOST_LICENCE_CHARS and "\n" not in text:
        return [{"license": {"name": text}}]
    named = [one.rpartition(" :: ")[2] for one in facts.get_all("Classifier") or () if one.startswith("License ::")]
    return [{"license": {"name": one}} for one in named]


def _field(package: metadata.Distribution, name: str) -> str:
    """Return a field of a package's metadata; empty where it has none."""
    return next(iter(package.metadata.get_all(name) or ()), "")


def _reference(name: str, package: metadata.Distribution) -> str:
    """Return the package URL, which also identifies a component within the bill."""
    return f"pkg:pypi/{name}@{package.version.replace('+', '%2B')}"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the bill of this environment to stdout."""
    sys.stdout.buffer.write(orjson.dumps(bill_of_materials(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
