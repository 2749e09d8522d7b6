"""`refaug start`: from nothing to a first score against real dialogues."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.installation import is_installed
from refaug.logs.everyday import NAME

_UTTERANCE: Final = "I just came back from a long walk with my dog."
_REPLIES: Final = {"close": "That sounds nice! How old is your dog?", "far": "The trains to Leeds are all late."}


def start_command(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", help="dataset.json of chitchat-dataset; by default that of the installed package.", metavar="FILE"
        ),
    ] = None,
    conversations: Annotated[
        int | None,
        typer.Option(help="Take only the first N conversations. A later run adds the rest.", min=100),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a home that scores, from everyday dialogues in English: log, word vectors, encoder, index, test items.

    It takes twenty minutes. What is there already stays; a run that was stopped goes on where it was.
    """
    from refaug.library.everyday import ENCODER, items_of, make_everyday_home  # noqa: PLC0415  numpy
    from refaug.library.scoring import score  # noqa: PLC0415

    parts = []
    with display_progress(quiet=context.obj.quiet) as progress:
        for part in make_everyday_home(context.obj, progress, source=source, conversations=conversations):
            parts.append(part)
            if part.is_new and part.kind != "log":
                record_act(context.obj, "publish", f"{part.kind} {part.spec}")
        item = {"id": "start", "utterance": _UTTERANCE, "replies": dict(_REPLIES)}
        scored = score([item], index=NAME, home=context.obj.home).scores[0]
    next_commands = {
        f"refaug score {shlex.quote(str(items_of(context.obj)))} --index {NAME} --percent": "index",
        f"refaug train rater {NAME} --network linear --encoder {ENCODER}": "rater",
        "refaug serve": "serve",
    }
    by_reply = {system: scored[system].replies[0] for system in _REPLIES}
    if as_json:
        example = {"utterance": _UTTERANCE, "replies": _REPLIES, "scores": by_reply, "signature": scored.signature}
        print_json({"parts": [asdict(part) for part in parts], "example": example, "next": list(next_commands)})
        return
    for part in parts:
        print_facts(f"{part.kind} {part.spec}", {**part.facts, "content": part.content[:12]})
    print_line(f"an example: {_UTTERANCE}")
    for system, reply in _REPLIES.items():
        print_line(f"  {by_reply[system]:.2f}  {reply}")
    print_line(f"by {scored.signature}")
    print_line("next:")
    for command, extra in next_commands.items():
        print_line(f"  {command}" + ("" if is_installed(extra) else f"  # after pip install 'refaug[{extra}]'"))
