"""The bill of materials: every package that runs with refaug, no development tool, and the same bytes each time."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import orjson
import pytest
from packaging.requirements import Requirement

from refaug.cli.server.bill_of_materials import bill_of_materials
from refaug.core.version import VERSION

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = dict(
    line.lower().replace("_", "-").split("==")
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    if not line.startswith("#")
)


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return bill_of_materials()


def names_of(requirements: list[str]) -> set[str]:
    return {re.sub(r"[-_.]+", "-", Requirement(text).name).lower() for text in requirements}


def test_it_lists_what_the_project_needs_at_the_versions_of_the_lock(bill: dict[str, Any]) -> None:
    listed = {component["name"]: component["version"].split("+")[0] for component in bill["components"]}
    extras = [
        texts for extra, texts in PROJECT["optional-dependencies"].items() if extra not in ("dev", "cluster", "start")
    ]
    needed = {name for texts in (PROJECT["dependencies"], *extras) for name in names_of(texts)} - {"refaug"}
    assert needed <= set(listed)
    assert {name: version for name, version in listed.items() if name in LOCK} == {
        name: LOCK[name] for name in listed if name in LOCK
    }
    assert sorted(listed) == list(listed)
    tools = {"pytest", "mypy", "ruff", "codespell", "import-linter", "basedpyright", "schemathesis"}
    assert tools <= names_of(PROJECT["optional-dependencies"]["dev"])
    assert not tools & set(listed)


def test_it_has_the_form_of_cyclonedx(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", bill["serialNumber"]
    )
    main = bill["metadata"]["component"]
    assert (main["type"], main["name"], main["version"]) == ("application", "refaug", VERSION)
    for component in [main, *bill["components"]]:
        assert component["bom-ref"] == component["purl"]
        assert re.fullmatch(r"pkg:pypi/[a-z0-9]+(-[a-z0-9]+)*@[A-Za-z0-9.%]+", component["purl"])
        for licence in component.get("licenses", ()):
            assert list(licence) in (["expression"], ["license"])
            assert "\n" not in str(licence)


def test_what_depends_on_what_is_what_the_packages_state(bill: dict[str, Any]) -> None:
    references = {one["bom-ref"] for one in [bill["metadata"]["component"], *bill["components"]]}
    depends = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert set(depends) == references
    assert {reference for named in depends.values() for reference in named} | {
        bill["metadata"]["component"]["bom-ref"]
    } == references
    starlette = f"pkg:pypi/starlette@{metadata.version('starlette')}"
    fastapi = f"pkg:pypi/fastapi@{metadata.version('fastapi')}"
    assert starlette in depends[fastapi]
    assert {"psycopg-binary"} == {name for name in LOCK if name == "psycopg-binary"}
    assert any("psycopg-binary@" in one for one in depends[bill["metadata"]["component"]["bom-ref"]])  # by an extra


def test_the_image_has_the_same_bytes_each_time() -> None:
    command = [sys.executable, "-m", "refaug.cli.server.bill_of_materials"]
    written = subprocess.run(command, capture_output=True, check=True, cwd="/").stdout
    assert orjson.loads(written) == bill_of_materials()
    step = "-m refaug.cli.server.bill_of_materials > /opt/refaug/share/refaug/sbom.cdx.json"
    assert step in (ROOT / "Dockerfile").read_text("utf-8")
    assert "COPY --from=builder /opt/refaug /opt/refaug" in (ROOT / "Dockerfile").read_text("utf-8")
