"""`refaug encoder …`: encoders in ONNX's format, which metrics name as `vectors=NAME`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import JsonFlag, format_amount, print_facts, print_json, print_line
from refaug.cli.shared.version_commands import VersionCommands
from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import RefaugError
from refaug.core.files import read_json

app = typer.Typer(help="Take over encoders of texts, for bertscore and sentence-cosine.", no_args_is_help=True)

_NameArgument = Annotated[str, typer.Argument(help="Name of the encoder.", metavar="ENCODER")]
_SpecArgument = Annotated[str, typer.Argument(help="Name and version.", metavar="NAME@VERSION")]


@app.command("import")
def import_command(
    context: typer.Context,
    name: _NameArgument,
    folder: Annotated[Path, typer.Argument(help="A folder with model.onnx and tokenizer.json, or the .onnx file.")],
    publish: Annotated[bool, typer.Option(help="Let it be what its name stands for from now on.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Copy an encoder into the home, where metrics find it by its name."""
    from refaug.evaluation.home.encoders import import_encoder  # noqa: PLC0415  numpy

    stored = import_encoder(artefact_stores(context.obj)["encoder"], context.obj.cache, name, folder, publish=publish)
    if publish:
        record_act(context.obj, "publish", f"encoder {stored.spec.partition('#')[0]}")
    if as_json:
        print_json(asdict(stored))
        return
    print_facts(f"encoder {stored.spec}", {"dimensions": stored.dimensions, "size": format_amount(stored.bytes, "B")})


@app.command("forget")
def forget_command(
    context: typer.Context,
    spec: Annotated[str | None, typer.Argument(help="NAME or NAME@VERSION; all, if none.", metavar="ENCODER")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete the sentence vectors that are kept on disk; they are computed again when they are needed."""
    encoders, content = artefact_stores(context.obj)["encoder"], None
    if spec is not None:
        manifest: Any = read_json(encoders.folder(*encoders.resolve(spec)) / MANIFEST)
        content = str(manifest["id"])
    freed = encodings_in(context.obj.cache).clear(content)
    if as_json:
        print_json({"encoder": spec, "freed": freed})
    else:
        print_line(f"{format_amount(freed, 'B')} freed")


def _facts(folder: Path) -> dict[str, object]:
    """Return the columns of an encoder in the list; a damaged one does not hide the others."""
    try:
        manifest: Any = read_json(folder / MANIFEST)
        return {"dimensions": manifest["dimensions"], "file": manifest["file"], "content": manifest["id"]}
    except (RefaugError, KeyError, TypeError) as error:
        return {"dimensions": None, "file": f"damaged: {error}", "content": None}


_COMMANDS: Final = VersionCommands(
    kind="encoder",
    plural="encoders",
    name=_NameArgument,
    spec=_SpecArgument,
    helps={
        "list": "All encoders with their versions; the published one is marked.",
        "publish": "Let a name stand for this version.",
        "rollback": "Let the name stand for the version that was published before again.",
        "gc": "Remove old versions; those stay that are published, being read, or needed by a fitted judge.",
        "remove": "Remove an encoder with all its versions; refused while a fitted judge needs one of them.",
    },
    begin="import",
    source="NAME FOLDER",
    facts=_facts,
    removal="its versions",
)

app.command("list")(_COMMANDS.list_command())
app.command("publish")(_COMMANDS.publish_command())
app.command("rollback")(_COMMANDS.rollback_command())
app.command("gc")(_COMMANDS.gc_command())
app.command("remove")(_COMMANDS.remove_command(Annotated[bool, typer.Option("--yes", help="Yes, remove it.")]))
