"""What a rater's network reads of the texts of an index, kept ahead of time: rating an item reads only its own."""

from __future__ import annotations

from dataclasses import dataclass

from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.core.progress import Progress
from refaug.indexer.manifest import IndexManifest
from refaug.indexer.search.segments import UTTERANCES
from refaug.indexer.vectors.encoder_vectors import IndexEncodings, encode_index, stored_pieces
from refaug.scoring.home.indexes import places_of
from refaug.scoring.home.networks import open_rater


@dataclass(frozen=True, kw_only=True)
class IndexStates:
    """The outcome of reading an index."""

    index: str
    rater: str
    texts: int  # of the index, repeats included
    read: int  # those that were not kept before
    not_kept: int  # read, but the disk or its limit did not let us keep them


def keep_vectors(
    settings: Settings, index: str, encoder: str | None, rater: str | None, progress: Progress, *, threads: int
) -> IndexEncodings | IndexStates:
    """Keep the vectors that an encoder has of the texts of an index, or those that a rater reads."""
    if rater is not None:
        return read_index(settings, index, rater, progress, threads=threads)
    return encode_index(places_of(settings), index, encoder, progress, threads=threads)


def read_index(settings: Settings, spec: str, rater: str, progress: Progress, *, threads: int = 1) -> IndexStates:
    """Read all utterances and responses that can be found in an index; a stopped run goes on where it was."""
    opened = open_rater(settings, rater, threads=threads, takes_kept=True)
    if opened.readers is None:
        raise Usage(
            f"rater {rater} reads no text alone, so nothing can be kept of one",
            remedy="a rater of the network nn or dual; of one over an encoder, the vectors of that: --encoder ENCODER",
            field="rater",
        )
    of_utterances, of_responses = opened.readers
    with places_of(settings).indexes.open(spec) as held:
        manifest, read, not_kept = IndexManifest.read(held.folder), 0, 0
        texts = sum(segment.utterances + segment.pairs for segment in manifest.segments)
        progress.stage("reading", texts, "texts")
        for column, piece in stored_pieces(held.folder, manifest):
            new, lost = (of_utterances if column == UTTERANCES else of_responses).keep(piece, threads)
            read, not_kept = read + new, not_kept + lost
            progress.advance(len(piece))
        if not_kept:
            progress.warn(f"{not_kept:,} texts were read, and the disk or its limit did not let us keep them")
        return IndexStates(
            index=f"{held.name}@{held.version}", rater=opened.spec, texts=texts, read=read, not_kept=not_kept
        )
