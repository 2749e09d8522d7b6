"""Versions of the artefacts behind `refaug adem`: each command finds out by the name which kind is meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from refaug.cli.shared import version_commands
from refaug.cli.shared.network_commands import manifest_and_report, network_version_commands
from refaug.cli.shared.output import JsonFlag, print_facts, print_json, print_line, print_table
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import Corrupt, NotFound, Usage
from refaug.core.home import Settings

KINDS: Final = ("adem", "vhred")  # scorers, and the networks that encode dialogues

NameArgument = Annotated[str, typer.Argument(help="Name of the artefact.", metavar="NAME")]
SpecArgument = Annotated[
    str, typer.Argument(help="Name of the artefact, or name@version for one that is not published.", metavar="NAME")
]
KindOption = Annotated[
    str | None,
    typer.Option(help=f"Which kind is meant, where two have the name: {' or '.join(KINDS)}.", metavar="KIND"),
]


def kind_of(settings: Settings, spec: str, kind: str | None) -> str:
    """Return the kind that has a version of this name; Usage where several do, or the kind does not exist."""
    if kind is not None and kind not in KINDS:
        raise Usage(f"--kind {kind}", remedy=f"one of: {', '.join(KINDS)}")
    stores, name = artefact_stores(settings), spec.partition("@")[0]
    having = [each for each in KINDS if name in stores[each].names() and kind in (None, each)]
    if len(having) > 1:
        raise Usage(f"{name} is the name of a {' and of an '.join(having)}", remedy=f"--kind {having[0]}")
    if not having:
        names = ", ".join(name for each in KINDS for name in stores[each].names()) or "none yet"
        raise NotFound(f"no {kind or ' or '.join(KINDS)} {name!r}", remedy=f"there are: {names}")
    return having[0]


def _commands(kind: str) -> version_commands.VersionCommands:
    return network_version_commands(kind, NameArgument, SpecArgument, group="adem", facts=_FACTS[kind])


def list_command(context: typer.Context, as_json: JsonFlag = False) -> None:
    """All adems and VHREDs with their versions; the published one is marked."""
    settings: Settings = context.obj
    rows = {f"{kind}s": _commands(kind).rows(settings) for kind in KINDS}
    if as_json:
        print_json(rows)
        return
    for name, of_kind in rows.items():
        if of_kind:
            print_table(name, list(of_kind[0]), [list(row.values()) for row in of_kind])
        else:
            begin = "train ITEMS --encoder NAME" if name == "adems" else "pretrain LOG"
            print_line(f"no {name} yet: refaug adem {begin}")


def show_command(
    context: typer.Context, spec: SpecArgument, kind: KindOption = None, as_json: JsonFlag = False
) -> None:
    """How a network was made, and how good it is on dialogues that it was not trained on."""
    settings: Settings = context.obj
    kind = kind_of(settings, spec, kind)
    with artefact_stores(settings)[kind].open(spec) as held:
        manifest, report = manifest_and_report(held.folder)
    if as_json:
        print_json({**manifest, "name": held.name, "version": held.version, "report": report})
        return
    facts = {"id": str(manifest["id"])[:12], **manifest["config"], **report_facts(report)}
    print_facts(f"{kind} {held.name}@{held.version}", facts)
    if report.get("epochs"):
        columns = ("epoch", "train_loss", "validation_loss", "validation_accuracy", "auc", "seconds")
        print_table("rounds", columns, [[round(epoch[name], 4) for name in columns] for epoch in report["epochs"]])


def report_facts(report: Mapping[str, Any]) -> dict[str, object]:
    """Return the main facts of a report; a random encoder has few."""
    facts: dict[str, object] = {"parameters": report["parameters"], "pieces": report["tokenizer"]["pieces"]}
    if "nll" not in report:
        return facts
    return {
        **facts,
        "dialogues": report["dialogues"]["train"],
        "held_out_dialogues": report["dialogues"]["validation"],  # on which the figures below are measured
        "best_round": report["best_epoch"],
        "nll": f"{report['nll']:.4f} nats a piece",
        "nll_with_context": f"{report['nll_with_context']:.4f}",
        "nll_without_context": f"{report['nll_without_context']:.4f}",
        "unigram_nll": f"{report['unigram_nll']:.4f}",
        "kl": f"{report['kl']:.4f} nats a turn, latent variable {report['latent']}",
        "discrimination": f"{report['discrimination']:.4f} of true contexts above drawn ones",
    }


def publish_command(
    context: typer.Context,
    spec: SpecArgument,
    kind: KindOption = None,
    even_refused: version_commands.EvenRefusedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a name stand for this version."""
    command = _commands(kind_of(context.obj, spec, kind)).publish_command()
    command(context, spec, even_refused=even_refused, as_json=as_json)


def rollback_command(
    context: typer.Context,
    name: NameArgument,
    kind: KindOption = None,
    to: version_commands.ToOption = None,
    even_refused: version_commands.EvenRefusedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Let the name stand for the version that was published before again."""
    command = _commands(kind_of(context.obj, name, kind)).rollback_command()
    command(context, name, to=to, even_refused=even_refused, as_json=as_json)


def gc_command(
    context: typer.Context,
    name: NameArgument,
    kind: KindOption = None,
    keep: version_commands.KeepOption = 3,
    even_pinned: version_commands.EvenPinnedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove old versions; those stay that are published or being read."""
    command = _commands(kind_of(context.obj, name, kind)).gc_command()
    command(context, name, keep=keep, even_pinned=even_pinned, as_json=as_json)


def _adem_facts(folder: Path) -> dict[str, object]:
    """Return the columns of an adem in the list; a damaged one does not hide the others."""
    try:
        manifest, report = manifest_and_report(folder)
        partial = report["validation"]["trained"]["partial_spearman"]
        encoder = str(manifest["encoder"]["spec"])
    except (Corrupt, KeyError, TypeError) as error:
        message = error.message if isinstance(error, Corrupt) else f"no {error}"
        return {"form": None, "encoder": None, "validation_partial_spearman": None, "id": message}
    return {
        "form": manifest["config"].get("form"),
        "encoder": encoder,
        "validation_partial_spearman": None if partial is None else round(float(partial), 4),
        "id": str(manifest.get("id"))[:12],
    }


def _facts_in_list(folder: Path) -> dict[str, object]:
    """Return the columns of a version in the list; a damaged one does not hide the others."""
    try:
        manifest, report = manifest_and_report(folder)
    except Corrupt as error:
        return {"cell": None, "parameters": None, "nll": None, "id": error.message}
    nll = report.get("nll")
    return {
        "cell": manifest["config"].get("cell"),
        "parameters": report.get("parameters"),
        "nll": None if nll is None else round(float(nll), 4),
        "id": str(manifest.get("id"))[:12],
    }


_FACTS: Final = {"adem": _adem_facts, "vhred": _facts_in_list}
