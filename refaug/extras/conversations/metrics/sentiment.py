"""Sentiment of a person's utterances, from numbers that some reader of sentiment gave.

A reader gives each text a score and a vector. DeepMoji's are 64 probabilities of emojis, whose weighted sum is the
score (`emoji_score`); a lexicon gives its own score and a short vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray

from refaug.core.options.declaring import Doc
from refaug.core.options.decoding import Options

# ── The forms of the components in which the paper and its released code differ: every face has these ─────────────────

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


# ── Sentiment of a person's utterances, from numbers that some reader of sentiment gave ───────────────────────────────

Floats = NDArray[np.float64]

_EMOJI_NAMES: Final = (
    "joy unamused weary sob heart_eyes pensive ok_hand blush heart smirk grin notes flushed 100 sleeping relieved "
    "relaxed raised_hands two_hearts expressionless sweat_smile pray confused kissing_heart heartbeat neutral_face "
    "information_desk_person disappointed see_no_evil tired_face v sunglasses rage thumbsup cry sleepy yum triumph "
    "hand mask clap eyes gun persevere smiling_imp sweat broken_heart yellow_heart musical_note speak_no_evil wink "
    "skull confounded smile stuck_out_tongue_winking_eye angry no_good muscle facepunch purple_heart "
    "sparkling_heart blue_heart grimacing sparkles"
)
EMOJIS: Final = tuple(_EMOJI_NAMES.split())
_WEIGHTED_EMOJIS: Final = {
    1.0: "kissing_heart thumbsup ok_hand smile",
    0.75: "blush wink muscle grin heart_eyes 100",
    0.5: "smirk stuck_out_tongue_winking_eye sunglasses relieved relaxed blue_heart two_hearts heartbeat yellow_heart",
    -0.5: "disappointed eyes expressionless sleeping grimacing",
    -0.75: "neutral_face confused triumph confounded",
    -1.0: "unamused angry rage",
}


def emoji_weights() -> Floats:
    """Return the weight of each of the 64 emojis, in DeepMoji's order; those that say neither good nor bad have 0."""
    weight_of = {emoji: weight for weight, names in _WEIGHTED_EMOJIS.items() for emoji in names.split()}
    return np.array([weight_of.get(emoji, 0.0) for emoji in EMOJIS])


def emoji_score(probabilities: Floats) -> Floats:
    """Return the score of texts from the probabilities of their emojis, (texts, 64)."""
    return np.asarray(probabilities @ emoji_weights(), np.float64)


def min_max_slope(scores: Sequence[float], form: Slope = "turns") -> float:
    """Return the slope between the smallest and the largest score of a conversation, a turn of the person further.

    `turns` takes the scores of what the person said; NaN is a turn without words, which only has its place. `masked` is
    the released code's: such a turn counts as 0, and a final 0 stands for the answer that did not come. The first of
    equal scores counts; a conversation without two scores has the slope 0.
    """
    values = np.array(scores, np.float64)
    if form == "masked":
        values = np.append(np.where(np.isnan(values), 0.0, values), 0.0)
    if np.count_nonzero(~np.isnan(values)) < 2:
        return 0.0
    lowest, highest = int(np.nanargmin(values)), int(np.nanargmax(values))
    if lowest == highest:
        return 0.0
    return float((values[lowest] - values[highest]) / (lowest - highest))
