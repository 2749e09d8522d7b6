"""The forms of the components in which the paper and its released code differ: every face has these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from refaug.core.options.declaring import Doc
from refaug.core.options.decoding import Options

Laughter = Literal["token", "substring"]
Questions = Literal["half", "both"]
Greedy = Literal["both", "user"]
Slope = Literal["turns", "masked"]


@dataclass(frozen=True, kw_only=True)
class Variants(Options):
    """The forms of the components in which the paper and its released code differ."""

    laughter: Annotated[Laughter, Doc("token: words that are laughter; substring: every ha.")] = "token"
    questions: Annotated[
        Questions, Doc("half: half for a question mark, half for a question word; both: 1 where both are there.")
    ] = "half"
    greedy: Annotated[
        Greedy, Doc("Greedy matching in both directions, or for the user's: the best word for each of their words.")
    ] = "both"
    slope: Annotated[Slope, Doc("Over the turns; masked: with a final 0 for the answer that was not given.")] = "turns"
