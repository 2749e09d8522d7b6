"""Initial embeddings of a network: random numbers, or vectors of its pieces trained on the same logs.

Vectors tell from the start which pieces are similar in all texts of the logs; pairs of responses are far fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from refaug.core.array_files import write_array
from refaug.core.errors import Corrupt
from refaug.core.progress import Progress
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer
from refaug.core.vectors.word_vectors import WordVectors
from refaug.logs.store import StoredLog
from refaug.rater.text_encoding import PAD

Start = Literal["vectors", "random"]


class PieceVectors(NamedTuple):
    """Word vectors of a tokenizer's pieces, and the details of their training."""

    vectors: WordVectors
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PieceVectorSettings:
    """The size of the pieces' vectors, and the resources for training them."""

    dimensions: int
    seed: int
    threads: int
    memory: int  # bytes


# Arguments: logs, tokenizer, settings, the folder to work in and to resume from, progress.
LearnVectors = Callable[
    [Sequence[StoredLog], SentencePieceTokenizer, PieceVectorSettings, Path, Progress], PieceVectors
]


def write_embeddings(
    path: Path,
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    settings: PieceVectorSettings,
    learn: LearnVectors,
    progress: Progress,
) -> Mapping[str, Any]:
    """Train vectors of the tokenizer's pieces and write a row for each piece; return the details of the training.

    The training works in the folder with the path's name without its suffix. The caller removes that folder after
    recording that this stage is done: half a folder could not be resumed.
    """
    piece_vectors = learn(logs, tokenizer, settings, path.with_suffix(""), progress)
    pieces = tokenizer.pieces
    write_array(path, embedding_matrix(piece_vectors.vectors, pieces, settings.seed))
    return {"pieces_with_a_vector": int((piece_vectors.vectors.rows_of(pieces) >= 0).sum()), **piece_vectors.details}


def embedding_matrix(vectors: WordVectors, pieces: Sequence[str], seed: int) -> NDArray[np.float32]:
    """Return a row for each piece: its vector, centred and scaled like torch's random numbers, or a random row."""
    rows = vectors.rows_of(pieces)
    vectors_found = np.asarray(vectors.matrix[rows[rows >= 0]], np.float64)
    matrix = np.random.default_rng(seed).standard_normal((len(pieces), vectors.dimensions))
    if len(vectors_found):
        centred = vectors_found - vectors_found.mean(axis=0)
        matrix[rows >= 0] = centred / (centred.std() or 1.0)
    return matrix.astype(np.float32)


def read_embeddings(path: Path) -> NDArray[np.float32]:
    """Read what `write_embeddings` wrote."""
    try:
        matrix: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{path}: {error}", remedy="remove the folder and train again") from error
    return matrix


class EmbeddingNetwork(Protocol):
    """A network that embeds pieces."""

    embedding: nn.Embedding


AnyNetwork = TypeVar("AnyNetwork", bound=EmbeddingNetwork)


def new_network(network: Callable[[], AnyNetwork], seed: int, embeddings: Path | None) -> AnyNetwork:
    """Return a new network with initial weights, and embeddings from a file if one is given; padding stays zero."""
    torch.manual_seed(seed)
    model = network()
    if embeddings is not None:
        with torch.no_grad():
            model.embedding.weight.copy_(torch.from_numpy(read_embeddings(embeddings)))
            model.embedding.weight[PAD] = 0
    return model
