"""What the embeddings of a rater start from: GloVe vectors of its own pieces, learnt from the logs it is trained on.

The rater knows nothing of how vectors are learnt, and who learns vectors nothing of raters: here the two meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from core.log_store import StoredLog
from core.progress import Progress
from core.stages import Stages
from core.text import SentencePieceTokenizer
from indexer.cooccurrence import CooccurrenceSettings
from indexer.glove import GloveSettings
from indexer.train_vectors import VectorsOrder, learn_vectors
from rater.embeddings import Learnt, VectorsWanted

_EPOCHS: Final = 8  # of the vectors, which the rater's own training changes again


def learn_piece_vectors(
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    wanted: VectorsWanted,
    folder: Path,
    progress: Progress,
) -> Learnt:
    """Vectors of the pieces of a tokenizer, out of all turns of the logs."""
    order = VectorsOrder(
        name="pieces",
        logs=tuple(log.manifest.name for log in logs),
        cooccurrence=CooccurrenceSettings(memory_bytes=wanted.memory),
        glove=GloveSettings(dimensions=wanted.dimensions, epochs=_EPOCHS, seed=wanted.seed, threads=wanted.threads),
    )
    learnt = learn_vectors(Stages(folder), logs, tokenizer, order, progress)
    return Learnt(learnt.vectors, {name: learnt.details[name] for name in ("glove", "losses")})
