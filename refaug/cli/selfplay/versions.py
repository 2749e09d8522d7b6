"""Versions of self-play: list, publish, roll back, remove."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from refaug.cli.shared.version_commands import VersionCommands
from refaug.core.errors import Corrupt

_NameArgument = Annotated[str, typer.Argument(help="Name of the self-play.", metavar="NAME")]
_SpecArgument = Annotated[str, typer.Argument(help="Name and version.", metavar="NAME@VERSION")]
YesFlag = Annotated[bool, typer.Option("--yes", help="Yes, remove it.")]


def _facts(folder: Path) -> dict[str, object]:
    from refaug.evaluation.selfplay.stored import read_self_play_manifest  # noqa: PLC0415

    try:
        manifest = read_self_play_manifest(folder)
    except Corrupt as error:
        return {"bots": "", "conversations": "", "turns": "", "start": f"damaged: {error}"}
    return {
        "bots": ", ".join(bot["name"] for bot in manifest["bots"]),
        "conversations": len(manifest["bots"]) * manifest["conversations_per_bot"],
        "turns": manifest["turns"],
        "start": manifest["start"],
    }


_COMMANDS: Final = VersionCommands(
    kind="self-play",
    plural="self_plays",
    name=_NameArgument,
    spec=_SpecArgument,
    helps={
        "list": "All self-plays with their versions; the published one is marked.",
        "publish": "Let a name stand for a version from now on.",
        "rollback": "Let a name stand for the version published before, or for another.",
        "gc": "Remove old versions, except for the published one.",
        "remove": "Remove a self-play with all its versions.",
    },
    begin="play",
    source="BOT --name NAME --start log:NAME",
    facts=_facts,
    removal="its versions",
    group="selfplay",
)

list_command = _COMMANDS.list_command()
publish_command = _COMMANDS.publish_command()
rollback_command = _COMMANDS.rollback_command()
gc_command = _COMMANDS.gc_command()
remove_command = _COMMANDS.remove_command(YesFlag)
