"""Learn the initial embeddings of a rater: GloVe vectors of its pieces, from the logs that it is trained on.

The rater does not know how vectors are learnt, and the code that learns vectors does not know raters: this module joins
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from refaug.core.artefacts.build_stages import Stages
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.indexer.vectors.training import VectorsOrder, learn_vectors
from refaug.logs.store import StoredLog
from refaug.rater.training.initial_embeddings import PieceVectors, PieceVectorSettings

_EPOCHS: Final = 8  # of learning the vectors, which the training of the rater changes again


def learn_piece_vectors(
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    settings: PieceVectorSettings,
    folder: Path,
    progress: Progress,
) -> PieceVectors:
    """Learn vectors of the pieces of a tokenizer from all turns of the logs."""
    order = VectorsOrder(
        name="pieces",
        logs=tuple(log.manifest.name for log in logs),
        cooccurrence=CooccurrenceSettings(memory_bytes=settings.memory),
        glove=GloveSettings(
            dimensions=settings.dimensions, epochs=_EPOCHS, seed=settings.seed, threads=settings.threads
        ),
    )
    learnt = learn_vectors(Stages(folder), logs, tokenizer, order, progress)
    return PieceVectors(learnt.vectors, {name: learnt.details[name] for name in ("glove", "losses")})
