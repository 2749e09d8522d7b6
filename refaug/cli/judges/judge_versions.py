"""Versions of fitted judges: publish, roll back, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from refaug.cli.shared.version_commands import VersionCommands
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import RefaugError
from refaug.core.files import read_json

_NameArgument = Annotated[str, typer.Argument(help="Name of the judge.", metavar="NAME")]
_SpecArgument = Annotated[str, typer.Argument(help="Name and version.", metavar="NAME@VERSION")]
_YesFlag = Annotated[bool, typer.Option("--yes", help="Yes, remove it.")]


def _facts(folder: Path) -> dict[str, object]:
    """Return the columns of a judge in the list; a damaged one does not hide the others."""
    try:
        manifest: Any = read_json(folder / MANIFEST)
        return {"metrics": ", ".join(manifest["metrics"])}
    except (RefaugError, AttributeError, KeyError, TypeError) as error:
        return {"metrics": f"damaged: {error}"}


_COMMANDS: Final = VersionCommands(
    kind="judge-fit",
    plural="judges",
    name=_NameArgument,
    spec=_SpecArgument,
    helps={
        "list": "All fitted judges with their versions, and what they ask; the published one is marked.",
        "publish": "Let a name stand for this version.",
        "rollback": "Let the name stand for the version that was published before again.",
        "gc": "Remove old versions; those stay that are published or being read.",
        "remove": "Remove a fitted judge with all its versions; what it was fitted with may be removed then.",
    },
    begin="train",
    source="ITEMS --name NAME -m METRIC",
    facts=_facts,
    removal="its versions",
)

list_command = _COMMANDS.list_command()
publish_command = _COMMANDS.publish_command()
rollback_command = _COMMANDS.rollback_command()
gc_command = _COMMANDS.gc_command()
remove_command = _COMMANDS.remove_command(_YesFlag)
