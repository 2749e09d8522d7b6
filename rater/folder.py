"""A trained network as a folder: its weights, the tokenizer they were trained with, a report, the manifest last."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar

import torch
from torch import nn

from core.artefacts import MANIFEST, content_id, describe_files, require_files, require_format, verify_files
from core.errors import Corrupt, Usage
from core.files import make_folder, read_json, write_aside, write_json
from core.text import SentencePieceTokenizer, open_sentencepiece
from core.version import VERSION
from rater.coverage import Coverage
from rater.tensors import read_tensors, write_tensors

FORMAT_VERSION: Final = 1
WEIGHTS: Final = "weights.safetensors"
TOKENIZER: Final = "tokenizer.model"
REPORT: Final = "report.json"
_REMEDY: Final = "restore it from a backup, or train it again"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a manifest says of a network of any kind."""

    id: str
    tokenizer: str
    languages: tuple[str, ...]
    coverage: Coverage  # of the texts it was trained on
    details: Mapping[str, Any]


class StoredFields(TypedDict):
    """The same, on the way from a manifest into a kind of its own."""

    id: str
    tokenizer: str
    languages: tuple[str, ...]
    coverage: Coverage
    details: Mapping[str, Any]


AnyStored = TypeVar("AnyStored", bound=Stored)
AnyNetwork = TypeVar("AnyNetwork", bound=nn.Module)


def write_network(
    folder: Path,
    kind: str,
    model: nn.Module,
    tokenizer: SentencePieceTokenizer,
    *,
    settings: Mapping[str, Any],
    languages: Sequence[str],
    coverage: Coverage | None = None,
    report: Mapping[str, Any],
    details: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> str:
    """Write all of it; the answer is its id, which weights, tokenizer and settings decide.

    `beside` are files that are in the folder already.
    """
    make_folder(folder)
    write_tensors(folder / WEIGHTS, model.state_dict())
    with write_aside(folder / TOKENIZER) as file:
        file.write(tokenizer.path.read_bytes())
    write_json(folder / REPORT, dict(report))
    files = describe_files(folder, [WEIGHTS, TOKENIZER, REPORT, *beside])
    name = content_id({"files": {one: files[one] for one in (WEIGHTS, TOKENIZER)}}, settings)
    write_json(
        folder / MANIFEST,
        {
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "id": name,
            **settings,
            "tokenizer": tokenizer.sha256,
            "languages": list(languages),
            "coverage": (coverage or Coverage()).written(),
            "files": files,
            "refaug": VERSION,
            "software": {"torch": torch.__version__, "python": platform.python_version()},
            "details": dict(details),
        },
    )
    return name


def read_network_manifest(
    folder: Path, kind: str, stored: Callable[[Mapping[str, Any], StoredFields], AnyStored]
) -> AnyStored:
    """What the folder says it holds, as `stored` puts it together; Corrupt, if it is not of this kind."""
    path = folder / MANIFEST
    manifest: dict[str, Any] = read_json(path)
    require_format(path, manifest, kind, FORMAT_VERSION)
    try:
        return stored(
            manifest,
            {
                "id": str(manifest["id"]),
                "tokenizer": str(manifest["tokenizer"]),
                "languages": tuple(manifest["languages"]),
                "coverage": Coverage.read(manifest.get("coverage")),
                "details": dict(manifest["details"]),
            },
        )
    except (KeyError, TypeError, ValueError, Usage) as error:
        raise Corrupt(f"{path} lacks what a {kind} needs: {error}", remedy=_REMEDY) from error


def open_network(
    folder: Path, kind: str, stored: Stored, build: Callable[[], AnyNetwork], *, settings: Sequence[str]
) -> tuple[AnyNetwork, SentencePieceTokenizer]:
    """Weights and tokenizer, those that the manifest names, its id what these and its settings make.

    Signatures name a network by its id, so what decides over its answers is looked at byte by byte, the rest by size.
    """
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    require_files(folder, manifest)
    files = {name: facts for name, facts in manifest["files"].items() if name in (WEIGHTS, TOKENIZER)}
    if len(files) < 2:
        raise Corrupt(f"{folder / MANIFEST} does not name {WEIGHTS} and {TOKENIZER}", remedy=_REMEDY)
    verify_files(folder, {"files": files})
    tokenizer = open_sentencepiece(folder / TOKENIZER)
    if tokenizer.sha256 != stored.tokenizer:
        raise Corrupt(
            f"{folder / TOKENIZER} is {tokenizer.sha256[:12]}; the {kind} was trained with {stored.tokenizer[:12]}",
            remedy=_REMEDY,
        )
    tensors = read_tensors(folder / WEIGHTS, remedy=_REMEDY)
    try:
        with torch.device("meta"):  # nothing is drawn, only to be replaced
            model = build()
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise Corrupt(f"{folder / WEIGHTS} does not hold this {kind}'s weights: {reason}", remedy=_REMEDY) from error
    name = content_id({"files": files}, {one: manifest[one] for one in settings})
    if name != stored.id:
        message = f"{folder / MANIFEST} was altered: it says {stored.id[:12]}, and what is in it makes {name[:12]}"
        raise Corrupt(message, remedy=_REMEDY)
    return model, tokenizer
