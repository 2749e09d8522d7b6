"""A home that scores, from real dialogues: the log everyday-en, its word vectors, its index, and the encoder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.files import read_json, write_json
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.logs.everyday import NAME, PACKAGE, write_dialogues
from refaug.operations.indexes import BuildIndex
from refaug.operations.logs import IngestLog
from refaug.operations.train_vectors import TrainVectors

ENCODER: Final = "all-minilm-l6-v2"
_CHECKED: Final = 200  # utterances on which recall is measured


@dataclass(frozen=True, kw_only=True)
class EverydayPart:
    """An artefact of the home: its content is the same wherever it is made on one kind of processor."""

    kind: str
    spec: str
    content: str  # a hash of what decides the answers, without times and paths
    is_new: bool
    facts: Mapping[str, Any] = field(default_factory=dict)


def make_everyday_home(
    home: Settings,
    progress: Progress,
    *,
    source: Path | None = None,
    encoder: str = ENCODER,
    conversations: int | None = None,
) -> Iterator[EverydayPart]:
    """Make what is not there yet, and yield each part when it is; what was stopped goes on where it was.

    `source` is the file of the data set, by default that of the installed package; `encoder` one that a package ships
    or the home has. Of all conversations or the first so many the log gains those that it lacks.
    """
    from refaug.indexer.building.build import build_index  # noqa: PLC0415  compiles
    from refaug.indexer.vectors.training import train_vectors  # noqa: PLC0415
    from refaug.scoring.home.indexes import cores, places_of  # noqa: PLC0415

    added = _encoder(home, encoder)  # first: where a package is missing, nothing is made
    yield _log(home, progress, source, conversations)
    yield added
    places = places_of(home)
    vectors = train_vectors(places, TrainVectors(logs=(NAME,)).order(threads=None, tokenizer=None), progress)
    facts = {"words": vectors.words, "dimensions": vectors.dimensions}
    yield EverydayPart(
        kind="vectors", spec=f"{NAME}@{vectors.version}", content=vectors.sha256, is_new=vectors.is_new, facts=facts
    )
    order = BuildIndex(logs=(NAME,), encoder=encoder, check_queries=_CHECKED)
    built = build_index(places, order.order(threads=cores(), encoder=encoder), progress)
    manifest: Any = read_json(places.indexes.folder(NAME, built.version) / MANIFEST)
    yield EverydayPart(kind="index", spec=f"{NAME}@{built.version}", content=str(manifest["id"]), is_new=built.is_new)


def items_of(home: Settings) -> Path:
    """Return the test items of the conversations that the log lacks."""
    return home.home / f"{NAME}-items.jsonl"


def _log(home: Settings, progress: Progress, source: Path | None, conversations: int | None) -> EverydayPart:
    """Clean the dialogues and ingest them, unless the log has as many; what it has is not added again."""
    from refaug.logs.ingest.ingest import ingest  # noqa: PLC0415  duckdb

    dialogues, counts = home.cache / NAME / f"{NAME}.jsonl", home.cache / NAME / "counts.json"
    made: Any = read_json(counts) if counts.is_file() and (home.logs / NAME / MANIFEST).is_file() else {}
    is_new = not made or (not made["is_whole"] and made["conversations"] < (conversations or math.inf))
    if is_new:
        located = source or PACKAGE.locate(f"the log {NAME} is made")
        cleaned = write_dialogues(located, dialogues, items_of(home), progress, most=conversations)
        ingest(IngestLog(sources=(str(dialogues),), log=NAME, language="en").order(), home.logs, progress)
        rules = {"conversations": cleaned.conversations, "held out": cleaned.held_out, **cleaned.rules}
        made = {"is_whole": conversations is None, "conversations": cleaned.conversations, "rules": rules}
        write_json(counts, made)  # last: a run that was stopped before it ingests again, which adds nothing
    manifest: Any = read_json(home.logs / NAME / MANIFEST)
    content = hashlib.sha256("".join(part["sha256"] for part in manifest["parts"]).encode()).hexdigest()
    return EverydayPart(
        kind="log", spec=NAME, content=content, is_new=is_new, facts={**manifest["totals"], **made["rules"]}
    )


def _encoder(home: Settings, name: str) -> EverydayPart:
    """Add the encoder from the packages that ship its files, unless the home has one of this name that none ships."""
    from refaug.scoring.home.encoders import PACKAGED, add_packaged  # noqa: PLC0415  numpy

    encoders = artefact_stores(home)["encoder"]
    if name in PACKAGED or encoders.current(name) is None:
        stored, is_new = add_packaged(encoders, home.cache, name)
        spec, _, content = stored.spec.partition("#")
        return EverydayPart(kind="encoder", spec=spec, content=content, is_new=is_new)
    name, version = encoders.resolve(name)
    manifest: Any = read_json(encoders.folder(name, version) / MANIFEST)
    return EverydayPart(kind="encoder", spec=f"{name}@{version}", content=str(manifest["id"]), is_new=False)
