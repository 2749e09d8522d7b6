"""The search for one reply to everything: tokens are edited one by one, and what raises its mean score stays."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from refaug.core.records import Item, Origin
from refaug.core.text.tokenizer_base import Tokenizer

_VOCABULARY: Final = 300  # the most frequent tokens, which edits draw from
_LONGEST: Final = 30  # tokens of a searched reply


def token_counts(items: Sequence[Item], tokenizer: Tokenizer) -> dict[str, int]:
    """Count the items in whose references a token stands; the most frequent tokens come first."""
    counts = Counter[str]()
    for test_item in items:
        texts = [reference.text for reference in test_item.references if reference.source is not Origin.PARROT]
        counts.update({token for tokens in tokenizer.tokenize_batch(texts) for token in tokens})
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def frequent_tokens(items: Sequence[Item], tokenizer: Tokenizer) -> list[str]:
    """Return the tokens that edits draw from, the most frequent first."""
    return list(token_counts(items, tokenizer))[:_VOCABULARY]


def search_constant(
    mean_of: Callable[[str], float], vocabulary: Sequence[str], steps: int, seed: int
) -> tuple[str, float]:
    """Edit a reply token by token for that many steps, keep what does not lower its mean, and return both."""
    generator = random.Random(seed)  # noqa: S311  nothing is secret
    tokens, best = list[str](), -np.inf
    for _ in range(steps if vocabulary else 0):
        edited = edit(tokens, vocabulary, generator)
        mean = mean_of(" ".join(edited))
        if mean >= best:
            tokens, best = edited, mean
    return " ".join(tokens), float(best)


def edit(tokens: Sequence[str], vocabulary: Sequence[str], generator: random.Random) -> list[str]:
    """Return the tokens with one inserted, replaced, removed, or two exchanged; frequent tokens are drawn more."""
    edited, word = list(tokens), vocabulary[int(len(vocabulary) * generator.random() ** 2)]
    kind = generator.random()
    if not edited or (kind < 0.4 and len(edited) < _LONGEST):
        edited.insert(generator.randint(0, len(edited)), word)
    elif kind < 0.75:
        edited[generator.randrange(len(edited))] = word
    elif kind < 0.9 and len(edited) > 1:
        del edited[generator.randrange(len(edited))]
    else:
        first, second = generator.randrange(len(edited)), generator.randrange(len(edited))
        edited[first], edited[second] = edited[second], edited[first]
    return edited
