"""`refaug index copies`: the copies of shards on the machines of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from refaug.cli.shared.output import JsonFlag, print_json, print_line
from refaug.cli.shared.progress import display_progress


def copies_command(
    context: typer.Context,
    on: Annotated[
        str,
        typer.Option("--on", help="The cluster of Ray: HOST:PORT, or auto on one of its machines.", metavar="ADDRESS"),
    ],
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove copies of no published version, unless a process has them open.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the copies of shards on all machines of a cluster; --remove lets those go that nothing needs."""
    from refaug.extras.cluster.connection import connect  # noqa: PLC0415
    from refaug.extras.cluster.search.fleet import copies_on_machines  # noqa: PLC0415
    from refaug.scoring.home.indexes import places_of  # noqa: PLC0415

    with display_progress(quiet=context.obj.quiet) as progress, connect(on) as cluster:
        progress.stage("asking machines", len(cluster.nodes()), "machines")
        copies = list(
            copies_on_machines(cluster, places_of(context.obj), remove=remove, look=lambda: progress.advance(0))
        )
    if as_json:
        print_json(
            [
                {
                    "machine": copy.machine.address,
                    "copy": copy.state.name,
                    "versions": copy.versions,
                    "bytes": copy.state.size,
                    "open": copy.state.is_open,
                    "published": copy.is_published,
                    "removed": copy.is_removed,
                }
                for copy in copies
            ]
        )
        return
    for copy in copies:
        state = "removed" if copy.is_removed else "open in a process" if copy.state.is_open else "not open"
        version = ", ".join(copy.versions) or "of no version here"
        print_line(f"{copy.machine.address}  {copy.state.name}  {version}  {copy.state.size:,} bytes  {state}")
    if not copies:
        print_line("no machine has a copy")
