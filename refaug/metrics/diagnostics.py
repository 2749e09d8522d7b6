"""Describe the replies of a system independently of any metric: variety, length, generic replies, copies.

Every figure is a number or the reason why there is none; FIGURES describes them. No figure is a score: a system can be
varied and wrong. The figures help to see why a score is as it is, and what it may have missed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Final

import numpy as np

from refaug.core.errors import Usage
from refaug.core.records import Item, Origin
from refaug.core.text.normalisation import normalise
from refaug.core.text.tokenizer_base import Tokenizer

Ngram = tuple[str, ...]

ORDERS: Final = (1, 2, 3)
SAMPLE: Final = 1_000  # n-grams of distinct_n_sample

# English replies that fit nearly anything. "Yes" is often right, but not as a third of all replies.
GENERIC_PHRASES: Final = frozenset(
    map(
        normalise,
        """I don't know|I do not know|I dunno|dunno|I'm not sure|I am not sure|not sure|no idea|I have no idea
        |I don't understand|what do you mean|I'm sorry|I am sorry|sorry|ok|okay|oh|oh ok|oh okay|hm|hmm|yes|yeah|yep|yup
        |no|nope|sure|of course|right|all right|alright|fine|good|great|nice|cool|wow|really|lol|haha|maybe|perhaps
        |it depends|I see|I think so|I don't think so|I hope so|I agree|me too|me neither|thanks|thank you
        |thank you very much|you're welcome|that's true|that's right|that's good|that's great|that's nice|that's cool
        |that sounds good|sounds good|good question|why|why not|what|what about you""".replace("\n", "").split("|"),
    )
)


@dataclass(frozen=True, slots=True)
class DiagnosticFigure:
    """A number, or the reason why there is none."""

    value: float | None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class FigureInfo:
    """The description of one figure."""

    name: str
    group: str
    summary: str


def _info(group: str, **summaries: str) -> list[FigureInfo]:
    return [FigureInfo(name=name, group=group, summary=summary) for name, summary in summaries.items()]


FIGURES: Final[Mapping[str, FigureInfo]] = {
    info.name: info
    for info in [
        *_info(
            "variety",
            **{f"distinct_{n}": f"different {n}-grams over all {n}-grams of all replies" for n in ORDERS},
            **{f"distinct_{n}_sample": f"the same, expected of a fixed number of the {n}-grams" for n in ORDERS},
            **{f"entropy_{n}": f"entropy of the distribution of {n}-grams, in bits" for n in ORDERS},
        ),
        *_info(
            "length",
            tokens_mean="tokens a reply, empty replies included",
            tokens_median="their median",
            tokens_sd="their standard deviation (n − 1)",
            tokens_min="tokens of the shortest reply",
            tokens_max="tokens of the longest reply",
            characters_mean="characters (code points, white space included) a reply",
        ),
        *_info(
            "generic",
            generic_reused="replies that the system gives, normalised, to two items or more",
            generic_listed="replies that stand, normalised, in a short list of generic English replies",
            generic_either="replies of one kind or the other",
            empty="replies without a token",
            questions="replies that end with a question mark",
        ),
        *_info(
            "repetition",
            repeated_trigram="replies in which a trigram stands twice or more",
            **{
                f"tokens_in_repeated_{n}": f"tokens that are part of a {n}-gram standing twice or more in their reply"
                for n in ORDERS
            },
        ),
        *_info(
            "copies",
            parrot="replies that are, normalised, the utterance; among items that have one",
            equal_to_gold="replies that are, normalised, one of the golds; among items that have one",
        ),
    ]
}


def groups() -> Iterator[tuple[str, list[str]]]:
    """Yield the names of the figures, group by group."""
    for group in dict.fromkeys(info.group for info in FIGURES.values()):
        yield group, [info.name for info in FIGURES.values() if info.group == group]


@dataclass(frozen=True, kw_only=True)
class DiagnosisSettings:
    """The settings of a diagnosis beside the tokenizer."""

    sample: int = SAMPLE
    listed: frozenset[str] | None = GENERIC_PHRASES  # normalised; None: the language has no list

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise Usage(f"a sample of {self.sample} n-grams", remedy="at least 1, such as 1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedReply:
    """A reply with what it is compared with; the last three are normalised, and None or empty where unknown."""

    text: str
    tokens: Sequence[str]
    normalised: str
    utterance: str | None = None
    golds: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All figures of one system's replies."""

    replies: int
    missing: int  # items without a reply
    tokens: int
    figures: Mapping[str, DiagnosticFigure]

    def as_json(self) -> dict[str, object]:
        """Return the values by name, and the reasons of those that are null."""
        return {
            "replies": self.replies,
            "missing": self.missing,
            "tokens": self.tokens,
            "figures": {name: figure.value for name, figure in self.figures.items()},
            "reasons": {name: figure.why for name, figure in self.figures.items() if figure.why is not None},
        }


# ── Systems and replies ───────────────────────────────────────────────────────────────────────────────────────────


def diagnose_items(
    items: Sequence[Item],
    systems: Iterable[str],
    tokenizer: Tokenizer,
    settings: DiagnosisSettings | None = None,
) -> dict[str, Diagnosis]:
    """Return a diagnosis of each system of a test file."""
    utterances = [None if item.utterance is None else normalise(item.utterance) for item in items]
    golds = [
        frozenset(normalise(reference.text) for reference in test_item.references if reference.source is Origin.GOLD)
        for test_item in items
    ]
    diagnoses = {}
    for system in systems:
        places = [place for place, item in enumerate(items) if system in item.replies]
        texts = [items[place].replies[system] for place in places]
        diagnosed = [
            DiagnosedReply(
                text=text,
                tokens=tokens,
                normalised=normalise(text),
                utterance=utterances[place],
                golds=golds[place],
            )
            for place, text, tokens in zip(places, texts, tokenizer.tokenize_batch(texts), strict=True)
        ]
        diagnoses[system] = diagnose(diagnosed, settings, missing=len(items) - len(diagnosed))
    return diagnoses


def diagnose(
    replies: Sequence[DiagnosedReply], settings: DiagnosisSettings | None = None, *, missing: int = 0
) -> Diagnosis:
    """Compute every figure of the replies of one system, each to another item."""
    settings = settings or DiagnosisSettings()
    texts = [reply.tokens for reply in replies]
    figures: dict[str, DiagnosticFigure] = {}
    for name, part in (
        ("distinct_{}", distinct),
        ("distinct_{}_sample", lambda counts: distinct_of_sample(counts, settings.sample)),
        ("entropy_{}", entropy),
    ):
        figures |= {name.format(n): part(ngram_counts(texts, n)) for n in ORDERS}
    figures |= _lengths(replies) | _shares(replies, settings) | _copies(replies)
    assert figures.keys() == FIGURES.keys()
    return Diagnosis(
        replies=len(replies),
        missing=missing,
        tokens=sum(map(len, texts)),
        figures={name: figures[name] for name in FIGURES},
    )


# ── Variety ───────────────────────────────────────────────────────────────────────────────────────────────────────


def ngrams(tokens: Sequence[str], n: int) -> list[Ngram]:
    """Return the n-grams of one reply in order."""
    return list(zip(*(tokens[start:] for start in range(n)), strict=False))


def ngram_counts(texts: Iterable[Sequence[str]], n: int) -> Counter[Ngram]:
    """Count each n-gram over all replies; none reaches into the next reply."""
    return Counter(ngram for tokens in texts for ngram in ngrams(tokens, n))


def distinct(counts: Mapping[Ngram, int]) -> DiagnosticFigure:
    """Return distinct n-grams over all n-grams: distinct-n of Li et al. 2016.

    It falls as replies are added, since language repeats itself: only sets of one size can be compared.
    """
    total = sum(counts.values())
    return DiagnosticFigure(len(counts) / total) if total else _NO_NGRAM


def distinct_of_sample(counts: Mapping[Ngram, int], size: int) -> DiagnosticFigure:
    """Return the expected distinct-n of `size` n-grams drawn without replacement.

    An n-gram that occurs f times among N is missing from a draw of S with probability C(N − f, S) / C(N, S), which is Π
    (1 − S / (N − i)) over i from 0 to f − 1 (rarefaction, Hurlbert 1971). So there is no seed and no order of the
    replies in it, and systems with more or longer replies are compared at the same number.
    """
    total = sum(counts.values())
    if total < size:
        return DiagnosticFigure(None, f"{total:,} n-grams, and the sample has {size:,}")
    # An n-gram more frequent than N − S is in every draw: log(1 − S / S) = −inf, and the sum stays −inf.
    remaining = total - np.arange(max(counts.values()), dtype=np.float64)
    with np.errstate(divide="ignore"):
        missing = np.exp(np.cumsum(np.log1p(-np.minimum(size / remaining, 1.0))))
    kinds = Counter(counts.values())
    return DiagnosticFigure(math.fsum(number * (1.0 - missing[f - 1]) for f, number in kinds.items()) / size)


def entropy(counts: Mapping[Ngram, int]) -> DiagnosticFigure:
    """Return −Σ p log₂ p over n-grams: Ent-n of Zhang et al. 2018, in bits; it grows with the number of n-grams."""
    total = sum(counts.values())
    if not total:
        return _NO_NGRAM
    return DiagnosticFigure(math.fsum(f / total * math.log2(total / f) for f in counts.values()))


# ── Length ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lengths(replies: Sequence[DiagnosedReply]) -> dict[str, DiagnosticFigure]:
    lengths = [len(reply.tokens) for reply in replies]
    return {
        "tokens_mean": _statistic(lengths, fmean),
        "tokens_median": _statistic(lengths, median),
        "tokens_sd": DiagnosticFigure(stdev(map(float, lengths)))
        if len(lengths) > 1
        else DiagnosticFigure(None, "fewer than two replies"),
        "tokens_min": _statistic(lengths, min),
        "tokens_max": _statistic(lengths, max),
        "characters_mean": _statistic([len(reply.text) for reply in replies], fmean),
    }


def _statistic(lengths: Sequence[int], statistic: Callable[[Sequence[int]], float]) -> DiagnosticFigure:
    return DiagnosticFigure(float(statistic(lengths))) if lengths else _NO_REPLY


# ── Shares of the replies ─────────────────────────────────────────────────────────────────────────────────────────


def _shares(replies: Sequence[DiagnosedReply], settings: DiagnosisSettings) -> dict[str, DiagnosticFigure]:
    """Return shares of all replies; an empty reply only counts in the share of empty replies."""
    times = Counter(reply.normalised for reply in replies)
    reused = [reply.normalised != "" and times[reply.normalised] > 1 for reply in replies]
    shares = {
        "generic_reused": share(reused),
        **_listed_shares(replies, reused, settings.listed),
        "empty": share([not reply.tokens for reply in replies]),
        "questions": share([is_question(reply.text) for reply in replies]),
        "repeated_trigram": share([repeats(reply.tokens, 3) for reply in replies]),
    }
    tokens = sum(len(reply.tokens) for reply in replies)
    for n in ORDERS:
        inside = sum(in_repeated(reply.tokens, n) for reply in replies)
        shares[f"tokens_in_repeated_{n}"] = (
            DiagnosticFigure(inside / tokens) if tokens else DiagnosticFigure(None, "no reply has a token")
        )
    return shares


def _listed_shares(
    replies: Sequence[DiagnosedReply], reused: Sequence[bool], phrases: frozenset[str] | None
) -> dict[str, DiagnosticFigure]:
    if phrases is None:
        no_list = DiagnosticFigure(None, "the list of generic replies is English")
        return {"generic_listed": no_list, "generic_either": no_list}
    listed = [reply.normalised in phrases for reply in replies]
    return {
        "generic_listed": share(listed),
        "generic_either": share([is_reused or is_listed for is_reused, is_listed in zip(reused, listed, strict=True)]),
    }


def share(flags: Sequence[bool], why: str = "there is no reply") -> DiagnosticFigure:
    """Return the share of flags that hold."""
    return DiagnosticFigure(sum(flags) / len(flags)) if flags else DiagnosticFigure(None, why)


def is_question(text: str) -> bool:
    """Whether the last sentence ends with a question mark, followed by at most marks, quotes and emoji."""
    return _QUESTION.search(unicodedata.normalize("NFKC", text[-_TAIL:])) is not None


_TAIL: Final = 40  # characters; more marks than any reply ends with
_QUESTION: Final = re.compile(r"[?؟]\W*\Z")  # ？ is ? in NFKC


def repeats(tokens: Sequence[str], n: int) -> bool:
    """Whether an n-gram occurs twice or more in this reply; the two may overlap, as in `ha ha ha ha`."""
    all_ngrams = ngrams(tokens, n)
    return len(set(all_ngrams)) < len(all_ngrams)


def in_repeated(tokens: Sequence[str], n: int) -> int:
    """Count the tokens that are part of an n-gram that occurs twice or more in this reply."""
    all_ngrams = ngrams(tokens, n)
    times = Counter(all_ngrams)
    if len(times) == len(all_ngrams):
        return 0
    return len({place + step for place, ngram in enumerate(all_ngrams) if times[ngram] > 1 for step in range(n)})


# ── Copies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _copies(replies: Sequence[DiagnosedReply]) -> dict[str, DiagnosticFigure]:
    """Return shares of copies; an empty reply is not a copy of an empty text."""
    of_utterance = [_equals_any(reply, {reply.utterance}) for reply in replies if reply.utterance is not None]
    of_gold = [_equals_any(reply, reply.golds) for reply in replies if reply.golds]
    return {
        "parrot": share(of_utterance, "no item with a reply has an utterance"),
        "equal_to_gold": share(of_gold, "no item with a reply has a gold"),
    }


def _equals_any(reply: DiagnosedReply, texts: Iterable[str | None]) -> bool:
    return reply.normalised != "" and reply.normalised in texts


_NO_NGRAM: Final = DiagnosticFigure(None, "no reply is long enough for one")
_NO_REPLY: Final = DiagnosticFigure(None, "there is no reply")
