"""The kinds of models that metrics name in their parameters, and the errors of a model that is not named."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from refaug.core.errors import Usage
from refaug.metrics.parameters import Parameter

if TYPE_CHECKING:
    from refaug.core.vectors.encoders import Encoder
    from refaug.core.vectors.word_vectors import WordVectors


class ModelKind(StrEnum):
    """What a metric asks; the value is the name of its artefacts in the home."""

    RATER = "rater"
    RUBER = "ruber"
    VHRED = "vhred"
    ADEM = "adem"
    JUDGE = "judge"  # a language model behind an endpoint
    FITTED_JUDGE = "judge-fit"
    INDEX = "index"  # whose log is sampled
    VECTORS = "vectors"
    ENCODER = "encoder"


BUILT_IN_RUBRICS: Final = ("overall", "appropriateness", "relevance")  # of judges behind an endpoint

_WORDS: Final = {
    ModelKind.RATER: "a rater",
    ModelKind.RUBER: "a ruber",
    ModelKind.VHRED: "a VHRED",
    ModelKind.ADEM: "an adem",
    ModelKind.JUDGE: "a judge",
    ModelKind.FITTED_JUDGE: "a fitted judge",
    ModelKind.INDEX: "an index",
    ModelKind.VECTORS: "word vectors",
    ModelKind.ENCODER: "an ONNX encoder",
}
_MISSING: Final = {
    ModelKind.RUBER: "a trained RUBER model",
    ModelKind.VHRED: "a trained VHRED model",
    ModelKind.ADEM: "an ADEM model that was fitted to ratings",
    ModelKind.JUDGE: "a judge behind an endpoint",
    ModelKind.INDEX: "an index, whose log says what its parts give to replies",
}
_WITH_PATHS: Final = frozenset({ModelKind.JUDGE, ModelKind.VECTORS, ModelKind.ENCODER})
_ASKED: Final = frozenset(ModelKind) - {ModelKind.INDEX, ModelKind.VECTORS, ModelKind.ENCODER}


@dataclass(frozen=True, kw_only=True)
class ModelName(Parameter):
    """A model of the home that the metric needs: `name` or `name@version`; signatures add `#content`."""

    default: str = ""
    kind: ModelKind

    @property
    def words(self) -> str:
        """The kind as catalogues list it."""
        return _WORDS[self.kind]

    @property
    def is_asked(self) -> bool:
        """Whether the model judges replies; vectors and indexes do not."""
        return self.kind in _ASKED

    @property
    def allows_path(self) -> bool:
        """Whether the path of a file may stand for the name, on the machine where it lies."""
        return self.kind in _WITH_PATHS

    @property
    def allowed(self) -> str:
        """What the text names."""
        path = ", or a path with a slash" if self.allows_path else ""
        return f"{self.words}: name or name@version ({self.list_command}){path}"

    @property
    def list_command(self) -> str:
        """The command that lists models of the kind."""
        return "refaug judge list" if self.kind is ModelKind.JUDGE else f"refaug artefacts list {self.kind}"

    def canonical(self, text: str) -> str | None:
        """Return the text unchanged."""
        return text if text and "," not in text else None

    def missing(self, metric: str, key: str = "") -> Usage:
        """Return the error of a metric that needs the model, and names none; `key` is what names it."""
        other = "; or norm=none" if self.kind is ModelKind.INDEX else ""
        return Usage(
            f"metric `{metric}` needs {_MISSING.get(self.kind, self.words)}: pass {metric}:{key or self.name}=NAME",
            remedy=f"{self.list_command}{other}",
        )


# ── What metrics are built with ───────────────────────────────────────────────────────────────────────────────────────


class OpenedVectors(NamedTuple):
    """Word vectors, and their name with their content, for signatures."""

    vectors: WordVectors
    spec: str


class OpenedEncoder(NamedTuple):
    """An encoder, and its name with its content, for signatures."""

    encoder: Encoder
    spec: str
    calibration: bytes = b""  # what refaug-1 knows of it; empty where it was not measured


class VectorOpener(Protocol):
    """What opens the vectors and encoders that specifications name; a home implements it."""

    def vectors(self, spec: str) -> OpenedVectors:
        """Return word vectors."""

    def encoder(self, spec: str) -> OpenedEncoder:
        """Return an encoder."""


class PathVectors:
    """Vectors and encoders by the path of a file or folder."""

    def vectors(self, spec: str) -> OpenedVectors:
        """Open the word vectors at a path."""
        from refaug.core.vectors.word_vectors import open_word_vectors  # noqa: PLC0415  numpy

        opened = open_word_vectors(Path(spec))
        return OpenedVectors(opened, opened.name)

    def encoder(self, spec: str) -> OpenedEncoder:
        """Open the encoder at a path; while its files stay the same, all metrics share it."""
        from refaug.core.vectors.encoder_files import stored_calibration  # noqa: PLC0415  numpy
        from refaug.core.vectors.encoders import shared_encoder  # noqa: PLC0415  numpy

        opened = shared_encoder(Path(spec))
        return OpenedEncoder(opened, opened.name, stored_calibration(Path(spec)))
