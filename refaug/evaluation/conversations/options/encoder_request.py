"""The encoders of the hybrid metric, not yet opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from refaug.core.options.declaring import Doc, Length, Metavar, Pattern
from refaug.core.options.decoding import Options

_SENTIMENT = Pattern(
    re.compile(r"vader|none|(lexicon|deepmoji):.{1,1000}"), "vader, none, lexicon:FILE or deepmoji:FOLDER"
)
_MEANING = Pattern(
    re.compile(r"mean|(onnx|infersent1|use3):.{1,1000}"), "mean, onnx:FOLDER, infersent1:FOLDER or use3:FOLDER"
)


@dataclass(frozen=True, kw_only=True)
class EncoderRequest(Options):
    """The encoders: vectors of the home or a file; sentiment and meaning by kind, with a path where they need one."""

    vectors: Annotated[
        str, Length(1, 1_000), Metavar("VECTORS"), Doc("Word vectors: NAME, NAME@VERSION, or a file, with a / in it.")
    ]
    sentiment: Annotated[
        str,
        _SENTIMENT,
        Metavar("KIND:PATH"),
        Doc("vader (English), none, lexicon:FILE, or deepmoji:FOLDER with a model in ONNX; of a job, in inbox/."),
    ] = "vader"
    meaning: Annotated[
        str,
        _MEANING,
        Metavar("KIND:PATH"),
        Doc("mean of the word vectors, or a model in ONNX: onnx:FOLDER, infersent1:FOLDER, use3:FOLDER."),
    ] = "mean"

    @property
    def encoder_files(self) -> list[str]:
        """The files and folders that encoders lie in."""
        models = [path for text in (self.sentiment, self.meaning) if (path := text.partition(":")[2])]
        return [*([self.vectors] if "/" in self.vectors else []), *models]
