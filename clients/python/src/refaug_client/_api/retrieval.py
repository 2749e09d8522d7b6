"""The settings of references; written by request_options.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict, Union


class Retrieval(TypedDict, total=False):
    """How references are found, rated and weighed: the `settings` of requests."""

    # tsuta20: every setting, and weighted BLEU, as in the code of Tsuta et al. (2020); refaug-1: what the recommended
    # metric is scored against, which that metric has by itself.
    preset: Literal["tsuta20", "refaug-1"]
    # What a gold weighs: 1, or what the rater says; none: golds play no part.
    gold: Literal["one", "rated", "none"]
    # The utterance itself as a reference: rated, off, or its weight from -1 to 1 (docs/gaming.md).
    parrot: Union[Literal["rated", "off"], float]
    # What references that are found weigh; one needs no rater for them.
    weights: Literal["rated", "one"]
    # How many left-out pairs to return, with reasons.
    show_excluded: int
    # References to find for each item.
    k: int
    # What is compared, and by what: docs/indexes.md.
    mode: Literal[
        "embedding-utterance", "embedding-dialog", "bm25-utterance", "bm25-dialog", "encoder-utterance", "fused"
    ]
    # Candidates that are ranked again; without it, as many as are needed.
    depth: int
    # Leave out a response as like the gold as this (Jaccard of its words).
    near: float
    # For `near`: both have at least this many words.
    near_tokens: int
    # Only pairs at or after this time.
    after: Union[str, datetime]
    # Only pairs before this time.
    before: Union[str, datetime]
    # Logs to take nothing from.
    exclude_logs: Sequence[str]
    # The responses' share in the dialog modes.
    alpha: float
    # What stands in for the responses' similarity otherwise.
    epsilon: float
    # Of an index on a cluster: `allow` takes the references of the shards that answer, and names the others; `refuse`
    # is an error then.
    partial: Literal["refuse", "allow"]
    # How the rater's two answers become a rating: docs/raters.md.
    combine: Literal["first", "first-literal", "max", "confident", "mean"]
    # Rate with the rater's temperature.
    calibrated: bool
