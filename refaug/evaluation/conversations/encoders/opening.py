"""The encoders of the hybrid metric, as options name them, opened, and named as signatures name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput
from refaug.core.home import Settings
from refaug.core.vectors.encoders import open_encoder
from refaug.core.vectors.word_vectors import WordVectors, open_word_vectors
from refaug.evaluation.conversations.encoders import sentiment_readers
from refaug.evaluation.conversations.encoders.vector_reader import VectorReader
from refaug.evaluation.conversations.options.encoder_request import EncoderRequest
from refaug.indexer.index_folders import open_vectors_version

# ── the meaning of a text by a sentence encoder in ONNX's format that the user brings ─────────────────────────────────

Floats = NDArray[np.float64]

# kind → the length of its vectors; None: any
ENCODERS: Final[Mapping[str, int | None]] = MappingProxyType({"infersent1": 4096, "use3": 512, "onnx": None})


class OnnxMeaning:
    """A sentence encoder under the name of what it is: InferSent 1, the Universal Sentence Encoder 3, or any."""

    def __init__(self, kind: str, path: Path) -> None:
        self._encoder = open_encoder(path)
        width, dimensions = ENCODERS[kind], self._encoder.dimensions
        if width is not None and dimensions != width:
            raise BadInput(
                f"encoder {self._encoder.name} gives {dimensions} numbers, and {kind} gives {width}",
                remedy=f"--meaning onnx:{path.name}, or an export of {kind} with the output sentence_embedding",
            )
        self.name = f"{kind}[{self._encoder.name}]"

    def encode(self, text: str) -> Floats | None:
        """Return the unit vector of a text; None where it has no token."""
        vector = np.asarray(self._encoder.sentence_vectors([text])[0], np.float64)
        return None if np.isnan(vector).any() else vector


# ── the encoders of the hybrid metric, as options name them, opened, and named as signatures name them ────────────────

NEWS: Final = "word2vec-news"  # the vectors of the paper: GoogleNews, 3,000,000 words of 300 numbers
_NEWS_SHAPE: Final = (3_000_000, 300)


@dataclass(frozen=True, eq=False)
class OpenEncoders:
    """A reader with what signatures call its parts."""

    reader: VectorReader
    details: Mapping[str, str]  # sent, sem and coh
    sentiment: sentiment_readers.SentimentReader | None

    def require_language(self, texts: Iterable[str]) -> None:
        """Refuse texts of a language that the sentiment is not read in."""
        if self.sentiment is not None:
            self.sentiment.require_language(texts)


def open_encoders(home: Settings, request: EncoderRequest) -> OpenEncoders:
    """Open all of them."""
    vectors, name = open_vectors(home, request.vectors)
    sentiment = _open_sentiment(request.sentiment)
    meaning = _open_meaning(request.meaning)
    details = {
        "sent": "none" if sentiment is None else sentiment.name,
        "sem": f"mean[{name}]" if meaning is None else meaning.name,
        "coh": _coherence_name(vectors, name),
    }
    return OpenEncoders(VectorReader(vectors, sentiment, meaning), details, sentiment)


def pinned_encoders(home: Settings, request: EncoderRequest) -> dict[str, str | None]:
    """Return what opens the same encoders again: versions of the home; None for files, which lie anywhere."""
    is_file = "/" in request.vectors
    return {
        "vectors": None if is_file else "@".join(artefact_stores(home)["vectors"].resolve(request.vectors)),
        "sentiment": None if ":" in request.sentiment else request.sentiment,
        "meaning": None if ":" in request.meaning else request.meaning,
    }


def open_vectors(home: Settings, spec: str) -> tuple[WordVectors, str]:
    """Open vectors of the home by their name, or a file; return them with their name in signatures."""
    if "/" in spec:
        opened = open_word_vectors(Path(spec))
        return opened, opened.name
    with artefact_stores(home)["vectors"].open(spec) as held:
        opened = open_vectors_version(held)
        return opened, f"{held.name}@{held.version}#{opened.sha256[:12]}"


def _coherence_name(vectors: WordVectors, name: str) -> str:
    """Return the name of the words' vectors; those called `word2vec-news` must be as many and as long as published."""
    if name.partition("@")[0].partition("#")[0] != NEWS:
        return f"[{name}]"
    words, dimensions = vectors.matrix.shape
    if (words, dimensions) != _NEWS_SHAPE:
        raise BadInput(
            f"the vectors {NEWS} are {words:,} of {dimensions} numbers, and the published ones "
            f"{_NEWS_SHAPE[0]:,} of {_NEWS_SHAPE[1]}",
            remedy="give them another name, or take over the published file whole",
        )
    return f"{NEWS}[{name}]"


def _open_sentiment(spec: str) -> sentiment_readers.SentimentReader | None:
    kind, _, path = spec.partition(":")
    if kind == "lexicon":
        return sentiment_readers.LexiconSentiment(Path(path))
    if kind == "deepmoji":
        return sentiment_readers.DeepMojiSentiment.open(Path(path))
    return sentiment_readers.VaderSentiment() if kind == "vader" else None


def _open_meaning(spec: str) -> OnnxMeaning | None:
    kind, _, path = spec.partition(":")
    return OnnxMeaning(kind, Path(path)) if path else None
