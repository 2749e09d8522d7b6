"""What the embeddings of a network start from: random numbers, or vectors of its pieces, learnt from the same logs.

Vectors tell from the start which pieces are alike, in all texts of the logs; pairs of responses are far fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from core.array_files import write_array
from core.errors import Corrupt
from core.log_store import StoredLog
from core.progress import Progress
from core.text import SentencePieceTokenizer
from core.word_vectors import WordVectors
from rater.model import PAD, BiGRURater, RaterConfig

Start = Literal["vectors", "random"]


class Learnt(NamedTuple):
    """Word vectors of the pieces of a tokenizer, and how they came about."""

    vectors: WordVectors
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class VectorsWanted:
    """What vectors of pieces are to be like, and what may be used up for them."""

    dimensions: int
    seed: int
    threads: int
    memory: int  # bytes


# The folder is to work in, and to go on in.
LearnVectors = Callable[[Sequence[StoredLog], SentencePieceTokenizer, VectorsWanted, Path, Progress], Learnt]


def write_embeddings(
    path: Path,
    logs: Sequence[StoredLog],
    tokenizer: SentencePieceTokenizer,
    wanted: VectorsWanted,
    learn: LearnVectors,
    progress: Progress,
) -> Mapping[str, Any]:
    """Learn vectors of the tokenizer's pieces, and write a row for each piece; how that came about.

    What is learnt lies in the folder of that name without its suffix. It is left to the caller, who removes it once
    this is known to be done: half of it could not be gone on with.
    """
    learnt = learn(logs, tokenizer, wanted, path.with_suffix(""), progress)
    pieces = tokenizer.pieces
    write_array(path, embedded(learnt.vectors, pieces, wanted.seed))
    return {"pieces_with_a_vector": int((learnt.vectors.rows_of(pieces) >= 0).sum()), **learnt.details}


def embedded(vectors: WordVectors, pieces: Sequence[str], seed: int) -> NDArray[np.float32]:
    """A row for each piece: its vector, all of them centred and spread as torch draws numbers; else a drawn row."""
    rows = vectors.rows_of(pieces)
    known = np.asarray(vectors.matrix[rows[rows >= 0]], np.float64)
    matrix = np.random.default_rng(seed).standard_normal((len(pieces), vectors.dimensions))
    if len(known):
        centred = known - known.mean(axis=0)
        matrix[rows >= 0] = centred / (centred.std() or 1.0)
    return matrix.astype(np.float32)


def read_embeddings(path: Path) -> NDArray[np.float32]:
    """What `write_embeddings` has written."""
    try:
        matrix: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Corrupt(f"{path}: {error}", remedy="remove the folder and train again") from error
    return matrix


def first_model(config: RaterConfig, seed: int, embeddings: Path | None) -> BiGRURater:
    """The network with its first weights, its embeddings from a file or drawn as well."""
    torch.manual_seed(seed)
    model = BiGRURater(config)
    if embeddings is not None:
        put_embeddings(model.embedding, embeddings)
    return model


def put_embeddings(embedding: nn.Embedding, path: Path) -> None:
    """Let embeddings start from those of a file; padding has none."""
    with torch.no_grad():
        embedding.weight.copy_(torch.from_numpy(read_embeddings(path)))
        embedding.weight[PAD] = 0
