"""BERTScore and sentence cosine as metrics: texts and a user's encoder to `metrics.contextual`.

A text of which the encoder's tokenizer makes no token of its own has no score: as a reference it is left out, as a
reply it gives a row of NaN. With `idf=yes` a BERTScore depends on all references of the set.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.encoders import OnnxEncoder, TokenVectors, open_encoder
from core.errors import Usage
from metrics.base import NO_REFERENCE, Floats, Indexes, Problem, References
from metrics.catalogue import MetricInfo
from metrics.contextual import IdfWeights, Measure, bertscore, idf_weights, sentence_cosine
from metrics.several import SingleReferenceMetric

NO_TOKENS: Final = Problem("no_tokens", "the encoder's tokenizer finds no token in the reply")
NO_WEIGHT: Final = Problem("no_idf_weight", "no token of the reply has any weight by idf")
NO_REFERENCE_WEIGHT: Final = Problem(
    "no_reference_idf_weight",
    "no token of its references has any weight by idf, as is always so in a set of one reference",
)
_MEASURES: Final[Mapping[str, Measure]] = {"f": "f", "precision": "precision", "recall": "recall"}


class Read(NamedTuple):
    """Texts as token vectors; references also have the weights of tokens that come from them."""

    texts: list[TokenVectors]
    idf: IdfWeights | None


class EncoderMetric(SingleReferenceMetric):
    """What both metrics do with their encoder."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        if not settings["encoder"]:
            raise Usage(f"{info.name} needs an encoder", remedy=f"{info.name}:encoder=FOLDER")
        self._encoder = _opened(Path(settings["encoder"]))
        self.info = info
        self.settings = {**settings, "encoder": self._encoder.name}
        self.choose_references(settings)

    def versions(self) -> Mapping[str, str]:
        """The encoder's."""
        return {"encoder": self._encoder.version}

    def undefined(self) -> Problem:
        """The reply has no tokens; references without any are not there."""
        return NO_TOKENS


class BertScore(EncoderMetric):
    """Every token matched with the most similar one of the other text."""

    def __init__(self, info: MetricInfo, settings: Mapping[str, str]) -> None:
        super().__init__(info, settings)
        self._measure = _MEASURES[settings["measure"]]
        self._weighs = settings["idf"] == "yes"
        self._idf: IdfWeights | None = None

    def undefined(self) -> Problem:
        """The reply has no tokens, or none that counts."""
        return NO_WEIGHT if self._weighs else NO_TOKENS

    def unusable(self) -> Problem:
        """No reference has tokens, or any that count."""
        return NO_REFERENCE_WEIGHT if self._weighs else NO_REFERENCE

    def for_set(self, references: Sequence[References]) -> BertScore:
        """The same with the idf of this set, where idf is asked for."""
        if not self._weighs:
            return self
        read = self.prepare(references).read
        assert isinstance(read, Read)
        bound = copy(self)
        bound._idf = read.idf  # noqa: SLF001
        return bound

    def versions(self) -> Mapping[str, str]:
        """The encoder's, and the idf once there is one."""
        return {**super().versions(), **({"idf": self._idf.sha256[:12]} if self._idf else {})}

    def read(self, texts: list[str]) -> Read:
        """Token vectors."""
        return Read(self._encoder.token_vectors(texts), None)

    def read_references(self, texts: list[str]) -> Read:
        """Token vectors, and the weights of tokens over these texts."""
        read = self.read(texts)
        if not self._weighs:
            return read
        return Read(read.texts, self._idf or _idf_of(read.texts))

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Those with tokens that count."""
        weight_of = len if read.idf is None else lambda ids: read.idf.of(ids.tolist()).sum()
        return np.array([weight_of(_own_ids(text)) > 0 for text in read.texts], dtype=np.bool_)

    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """The BERTScore of each pair."""
        return bertscore(replies.texts, references.texts, reply, reference, measure=self._measure, idf=references.idf)


class SentenceCosine(EncoderMetric):
    """The cosine of two sentence vectors."""

    def read(self, texts: list[str]) -> NDArray[np.float32]:
        """Sentence vectors, one a row."""
        return self._encoder.sentence_vectors(texts)

    def usable(self, read: Any) -> NDArray[np.bool_]:
        """Those with a vector."""
        return np.asarray(~np.isnan(read).any(axis=1))

    def pair_values(self, replies: Any, references: Any, reply: Indexes, reference: Indexes) -> Floats:
        """The cosine of each pair; of many references that are held ready, few are those of a batch."""
        used, place = np.unique(reference, return_inverse=True)
        return sentence_cosine(np.concatenate([replies, references[used]]), reply, place + len(replies))


def _idf_of(texts: Sequence[TokenVectors]) -> IdfWeights:
    return idf_weights(ids for text in texts if len(ids := _own_ids(text)))


def _own_ids(text: TokenVectors) -> NDArray[np.int64]:
    """The ids of a text's tokens without the special ones."""
    return text.ids[~text.special]


def _opened(path: Path) -> OnnxEncoder:
    """The encoder at a path; as long as its files stay the same it is opened once, for all metrics together."""
    folder = path if path.is_dir() else path.parent
    try:
        files = [file for at in (folder, folder / "onnx", folder / "1_Pooling") if at.is_dir() for file in at.iterdir()]
        stamps = [(str(file), status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    except OSError:  # opening says better what is wrong
        return open_encoder(path)
    return _opened_once(path, tuple(sorted(stamps)))


@functools.lru_cache(maxsize=2)
def _opened_once(path: Path, _stamps: tuple[tuple[str, int, int], ...]) -> OnnxEncoder:
    return open_encoder(path)


def build(info: MetricInfo, settings: Mapping[str, str]) -> EncoderMetric:
    """Make one from checked settings."""
    return (BertScore if info.name == "bertscore" else SentenceCosine)(info, settings)
