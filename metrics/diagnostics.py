"""What the replies of a system are like, whatever a metric says of them: how varied, how long, how generic, how copied.

Every figure is a number or the reason why there is none; FIGURES says what each one is. Nothing here is a score: a
system can be varied and wrong. The figures are for seeing why a score is what it is, and what it may have missed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any, Final

import numpy as np

from core.errors import Usage
from core.records import Item, Origin
from core.text import Tokenizer, normalise

Ngram = tuple[str, ...]

ORDERS: Final = (1, 2, 3)
SAMPLE: Final = 1_000  # n-grams that distinct_n_sample looks at

# Our own list of what can be said to nearly anything, in English. "Yes" is often right; a third of all replies is not.
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
class Figure:
    """A number, or why there is none."""

    value: float | None
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class FigureInfo:
    """One line of the list of figures."""

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
    """The names of the figures, group by group."""
    for group in dict.fromkeys(info.group for info in FIGURES.values()):
        yield group, [info.name for info in FIGURES.values() if info.group == group]


@dataclass(frozen=True, kw_only=True)
class DiagnosisSettings:
    """What a diagnosis depends on beside the replies and the tokenizer."""

    sample: int = SAMPLE
    listed: frozenset[str] | None = GENERIC_PHRASES  # normalised; None: there is no list for the language

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise Usage(f"a sample of {self.sample} n-grams", remedy="at least 1, such as 1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply with what it can be compared with; the last three are normalised, and None or empty where unknown."""

    text: str
    tokens: Sequence[str]
    normalised: str
    utterance: str | None = None
    golds: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All figures of one system's replies."""

    replies: int
    missing: int  # items that it has no reply to
    tokens: int
    figures: Mapping[str, Figure]

    def as_json(self) -> dict[str, Any]:
        """Values by name, and the reasons of those that are null."""
        return {
            "replies": self.replies,
            "missing": self.missing,
            "tokens": self.tokens,
            "figures": {name: figure.value for name, figure in self.figures.items()},
            "reasons": {name: figure.why for name, figure in self.figures.items() if figure.why is not None},
        }


# ── systems and replies ───────────────────────────────────────────────────────────────────────────────────────────


def diagnose_items(
    items: Sequence[Item],
    systems: Iterable[str],
    tokenizer: Tokenizer,
    settings: DiagnosisSettings | None = None,
) -> dict[str, Diagnosis]:
    """A diagnosis of each system of a test file."""
    utterances = [None if item.pair.utterance is None else normalise(item.pair.utterance) for item in items]
    golds = [
        frozenset(normalise(one.text) for one in item.pair.references if one.source is Origin.GOLD) for item in items
    ]
    found = {}
    for system in systems:
        places = [place for place, item in enumerate(items) if system in item.replies]
        texts = [items[place].replies[system] for place in places]
        answers = [
            Answer(
                text=text,
                tokens=tokens,
                normalised=normalise(text),
                utterance=utterances[place],
                golds=golds[place],
            )
            for place, text, tokens in zip(places, texts, tokenizer.tokenize_batch(texts), strict=True)
        ]
        found[system] = diagnose(answers, settings, missing=len(items) - len(answers))
    return found


def diagnose(answers: Sequence[Answer], settings: DiagnosisSettings | None = None, *, missing: int = 0) -> Diagnosis:
    """Every figure of the replies of one system, each to an item of its own."""
    settings = settings or DiagnosisSettings()
    texts = [answer.tokens for answer in answers]
    found: dict[str, Figure] = {}
    for name, part in (
        ("distinct_{}", distinct),
        ("distinct_{}_sample", lambda counts: distinct_of_sample(counts, settings.sample)),
        ("entropy_{}", entropy),
    ):
        found |= {name.format(n): part(ngram_counts(texts, n)) for n in ORDERS}
    found |= _lengths(answers) | _shares(answers, settings) | _copies(answers)
    assert found.keys() == FIGURES.keys()
    return Diagnosis(
        replies=len(answers),
        missing=missing,
        tokens=sum(map(len, texts)),
        figures={name: found[name] for name in FIGURES},
    )


# ── variety ───────────────────────────────────────────────────────────────────────────────────────────────────────


def ngrams(tokens: Sequence[str], n: int) -> list[Ngram]:
    """The n-grams of one reply in order; none of them reaches into the next reply."""
    return list(zip(*(tokens[start:] for start in range(n)), strict=False))


def ngram_counts(texts: Iterable[Sequence[str]], n: int) -> Counter[Ngram]:
    """How often each n-gram occurs in all replies together."""
    return Counter(ngram for tokens in texts for ngram in ngrams(tokens, n))


def distinct(counts: Mapping[Ngram, int]) -> Figure:
    """Different n-grams over all of them: distinct-n of Li et al. 2016.

    It falls by itself as replies are added, since language repeats itself: only sets of one size can be compared.
    """
    total = sum(counts.values())
    return Figure(len(counts) / total) if total else _NO_NGRAM


def distinct_of_sample(counts: Mapping[Ngram, int], size: int) -> Figure:
    """The distinct-n that `size` of the n-grams have on average, over all ways to draw so many without putting back.

    An n-gram that occurs f times among N is missing from a draw of S with probability C(N − f, S) / C(N, S), which is
    Π (1 − S / (N − i)) over i from 0 to f − 1 (rarefaction, Hurlbert 1971). So there is neither a seed nor an order of
    the replies in it, and systems with more or longer replies are held to the same number.
    """
    total = sum(counts.values())
    if total < size:
        return Figure(None, f"{total:,} n-grams, and the sample has {size:,}")
    # A word more frequent than what is not drawn is in every draw: log(1 − S / S) = −inf, and −inf it stays.
    left = total - np.arange(max(counts.values()), dtype=np.float64)
    with np.errstate(divide="ignore"):
        missing = np.exp(np.cumsum(np.log1p(-np.minimum(size / left, 1.0))))
    kinds = Counter(counts.values())
    return Figure(math.fsum(number * (1.0 - missing[f - 1]) for f, number in kinds.items()) / size)


def entropy(counts: Mapping[Ngram, int]) -> Figure:
    """−Σ p log₂ p over n-grams: Ent-n of Zhang et al. 2018, in bits. It grows with the number of n-grams."""
    total = sum(counts.values())
    if not total:
        return _NO_NGRAM
    return Figure(math.fsum(f / total * math.log2(total / f) for f in counts.values()))


# ── length ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _lengths(answers: Sequence[Answer]) -> dict[str, Figure]:
    lengths = [len(answer.tokens) for answer in answers]
    return {
        "tokens_mean": _of(lengths, fmean),
        "tokens_median": _of(lengths, median),
        "tokens_sd": Figure(stdev(map(float, lengths))) if len(lengths) > 1 else Figure(None, "fewer than two replies"),
        "tokens_min": _of(lengths, min),
        "tokens_max": _of(lengths, max),
        "characters_mean": _of([len(answer.text) for answer in answers], fmean),
    }


def _of(lengths: Sequence[int], what: Callable[[Sequence[int]], float]) -> Figure:
    return Figure(float(what(lengths))) if lengths else _NO_REPLY


# ── shares of the replies ─────────────────────────────────────────────────────────────────────────────────────────


def _shares(answers: Sequence[Answer], settings: DiagnosisSettings) -> dict[str, Figure]:
    """Shares of all replies. An empty reply is none of the others: it has a share of its own."""
    times = Counter(answer.normalised for answer in answers)
    reused = [answer.normalised != "" and times[answer.normalised] > 1 for answer in answers]
    found = {
        "generic_reused": share(reused),
        **_listed(answers, reused, settings.listed),
        "empty": share([not answer.tokens for answer in answers]),
        "questions": share([is_question(answer.text) for answer in answers]),
        "repeated_trigram": share([repeats(answer.tokens, 3) for answer in answers]),
    }
    tokens = sum(len(answer.tokens) for answer in answers)
    for n in ORDERS:
        inside = sum(in_repeated(answer.tokens, n) for answer in answers)
        found[f"tokens_in_repeated_{n}"] = Figure(inside / tokens) if tokens else Figure(None, "no reply has a token")
    return found


def _listed(answers: Sequence[Answer], reused: Sequence[bool], phrases: frozenset[str] | None) -> dict[str, Figure]:
    if phrases is None:
        no_list = Figure(None, "the list of generic replies is English")
        return {"generic_listed": no_list, "generic_either": no_list}
    listed = [answer.normalised in phrases for answer in answers]
    return {
        "generic_listed": share(listed),
        "generic_either": share([one or other for one, other in zip(reused, listed, strict=True)]),
    }


def share(flags: Sequence[bool], why: str = "there is no reply") -> Figure:
    """How many of them hold, over all."""
    return Figure(sum(flags) / len(flags)) if flags else Figure(None, why)


def is_question(text: str) -> bool:
    """Whether the last sentence ends with a question mark: after it come marks, quotes and emoji at most, no word."""
    return _QUESTION.search(unicodedata.normalize("NFKC", text[-_TAIL:])) is not None


_TAIL: Final = 40  # more marks than anyone sets at an end
_QUESTION: Final = re.compile(r"[?؟]\W*\Z")  # ？ is ? in NFKC


def repeats(tokens: Sequence[str], n: int) -> bool:
    """Whether an n-gram stands twice or more in this reply; the two may overlap, as in `ha ha ha ha`."""
    found = ngrams(tokens, n)
    return len(set(found)) < len(found)


def in_repeated(tokens: Sequence[str], n: int) -> int:
    """How many tokens are part of an n-gram that stands twice or more in this reply."""
    found = ngrams(tokens, n)
    times = Counter(found)
    if len(times) == len(found):
        return 0
    return len({place + step for place, ngram in enumerate(found) if times[ngram] > 1 for step in range(n)})


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _copies(answers: Sequence[Answer]) -> dict[str, Figure]:
    """An empty reply is not a copy of an empty text."""
    of_utterance = [_is_one(answer, {answer.utterance}) for answer in answers if answer.utterance is not None]
    of_gold = [_is_one(answer, answer.golds) for answer in answers if answer.golds]
    return {
        "parrot": share(of_utterance, "no item with a reply has an utterance"),
        "equal_to_gold": share(of_gold, "no item with a reply has a gold"),
    }


def _is_one(answer: Answer, texts: Iterable[str | None]) -> bool:
    return answer.normalised != "" and answer.normalised in texts


_NO_NGRAM: Final = Figure(None, "no reply is long enough for one")
_NO_REPLY: Final = Figure(None, "there is no reply")
