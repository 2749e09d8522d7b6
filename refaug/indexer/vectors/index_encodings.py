"""Encoding the texts of an index ahead of time, into the sentence vectors that a home keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from refaug.core.errors import Usage
from refaug.core.progress import Progress
from refaug.indexer.columns import TextColumn, map_array
from refaug.indexer.index_folders import Places, encoder_source, hold_encoder
from refaug.indexer.manifest import IndexManifest, VectorSource
from refaug.indexer.search.segments import PAIRS, SUPERSEDED, UTTERANCES

_TEXTS_A_PIECE: Final = 4_096


@dataclass(frozen=True, kw_only=True)
class IndexEncodings:
    """The outcome of encoding an index."""

    index: str
    encoder: str
    texts: int  # of the index, repeats included
    encoded: int  # those that were not kept before
    truncated: int  # longer than the encoder reads, repeats included
    not_kept: int  # encoded, but the disk or its limit did not let us keep them


def encode_index(
    places: Places, spec: str, encoder: str | None, progress: Progress, *, threads: int = 1
) -> IndexEncodings:
    """Encode all utterances and responses that can be found in an index; a stopped run goes on where it was."""
    with places.indexes.open(spec) as held:
        manifest = IndexManifest.read(held.folder)
        source = _source(places, manifest, encoder, threads)
        held_encoder, opened = hold_encoder(places, source, threads=threads)
        with held_encoder or nullcontext():
            assert opened.kept is not None
            before = opened.encoded, opened.truncated, opened.kept.not_kept.total()
            texts = sum(segment.utterances + segment.pairs for segment in manifest.segments)
            progress.stage("encoding", texts, "texts")
            for piece in _pieces(held.folder, manifest):
                opened.sentence_vectors(piece)
                progress.advance(len(piece))
            after = opened.encoded, opened.truncated, opened.kept.not_kept.total()
            for reason, count in opened.kept.not_kept.items():
                progress.warn(f"{count:,} vectors were not kept: {reason}")
        encoded, truncated, not_kept = (now - then for now, then in zip(after, before, strict=True))
        return IndexEncodings(
            index=f"{held.name}@{held.version}",
            encoder=opened.name,
            texts=texts,
            encoded=encoded,
            truncated=truncated,
            not_kept=not_kept,
        )


def _source(places: Places, manifest: IndexManifest, encoder: str | None, threads: int) -> VectorSource:
    """Return the encoder that is named, or that of the index, if the home has it."""
    if encoder is not None:
        return encoder_source(places, encoder, threads=threads)
    if manifest.vectors.kind != "encoder":
        raise Usage(
            f"index {manifest.name} was built with word vectors, and no encoder is named",
            remedy="--encoder NAME, one of refaug artefacts list encoder",
            field="encoder",
        )
    if manifest.vectors.path:
        raise Usage(
            f"index {manifest.name} was built with an encoder in a folder, {manifest.vectors.path}",
            remedy="vectors are kept of encoders of the home: refaug encoder import NAME FOLDER, then --encoder NAME",
            field="encoder",
        )
    return manifest.vectors


def _pieces(version: Path, manifest: IndexManifest) -> Iterator[list[str]]:
    """Yield the texts of all segments but for those that updates have masked."""
    for number, info in enumerate(manifest.segments):
        folder, mask = version / info.folder, version / SUPERSEDED.format(number)
        starts = map_array(folder / "pair_start.npy", np.int64)
        is_live = np.ones(len(starts) - 1, np.bool_)
        if mask.exists():
            is_live &= ~map_array(mask, np.bool_)
        live_pairs = np.flatnonzero(np.repeat(is_live, np.diff(starts)))
        for column, rows in ((UTTERANCES, np.flatnonzero(is_live)), (PAIRS, live_pairs)):
            texts = TextColumn.open(folder / column)
            for first in range(0, len(rows), _TEXTS_A_PIECE):
                yield texts.take_ascending(rows[first : first + _TEXTS_A_PIECE]).to_pylist()
