"""Versions of hybrids: list, publish, roll back, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from refaug.cli.shared.version_commands import VersionCommands
from refaug.core.errors import Corrupt

_NameArgument = Annotated[str, typer.Argument(help="Name of the hybrid.", metavar="NAME")]
_SpecArgument = Annotated[str, typer.Argument(help="Name and version.", metavar="NAME@VERSION")]
YesFlag = Annotated[bool, typer.Option("--yes", help="Yes, remove it.")]


def _facts(folder: Path) -> dict[str, Any]:
    from refaug.evaluation.conversations.hybrids.stored import read_hybrid_manifest  # noqa: PLC0415

    try:
        manifest = read_hybrid_manifest(folder)
    except Corrupt as error:
        return {"columns": "", "conversations": "", "bots": "", "target": f"damaged: {error}"}
    return {
        "columns": manifest["columns"],
        "conversations": manifest["fitted_to"]["conversations"],
        "bots": len(manifest["fitted_to"]["bots"]),
        "target": manifest["fit"]["target"] or "mean",
    }


_COMMANDS: Final = VersionCommands(
    kind="hybrid",
    plural="hybrids",
    name=_NameArgument,
    spec=_SpecArgument,
    helps={
        "list": "All hybrids with their versions; the published one is marked.",
        "publish": "Let a name stand for a version from now on.",
        "rollback": "Let a name stand for the version published before, or for another.",
        "gc": "Remove old versions, except for the published one.",
        "remove": "Remove a hybrid with all its versions.",
    },
    begin="fit",
    source="CONVERSATIONS --name NAME --vectors VECTORS",
    facts=_facts,
    removal="its versions",
    group="hybrid",
)

list_command = _COMMANDS.list_command()
publish_command = _COMMANDS.publish_command()
rollback_command = _COMMANDS.rollback_command()
gc_command = _COMMANDS.gc_command()
remove_command = _COMMANDS.remove_command(YesFlag)
