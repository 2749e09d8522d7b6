"""Stress rows of `refaug agreement probe`: how far a metric's scores move when replies are altered, in their own units.

The altered replies are those of the probes and those below. A change is the mean over items of the altered
reply's score less the base's, divided by the standard deviation of all scores of the table but those of empty replies,
with an interval over items; only replies that the alteration changed count. R. Lowe's seven groups of replies (2019)
are rebuilt from the golds of the file: relevant and irrelevant ones, short and long, a generic one, one without a
known word, the gold.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from refaug.agreement.probe import Probe, ProbeSettings, make_probes
from refaug.core.errors import NotFound
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin
from refaug.core.text.tokenizer_base import WordTokenizer
from refaug.metrics.base import Floats, Level, Metric, Problem
from refaug.metrics.statistics.resampling import count_blocks, percentile_interval
from refaug.metrics.words.meteor import WordNet
from refaug.scoring.cases import NO_REPLY, bind_metric, references_for, score_replies

# ── Altered replies ───────────────────────────────────────────────────────────────────────────────────────────────────

WORDNET: Final = Path("/usr/share/wordnet")
FALLS, HOLDS = "falls", "holds"  # what the score of an altered reply should do
STRESSES: Final[Mapping[str, tuple[str, str]]] = {  # name → what is done, and what the score should do
    "reversed": ("its words in the reversed order", FALLS),
    "no-stopwords": ("without its function words", FALLS),
    "content-only": ("its content words alone, in lower case, without marks", FALLS),
    "no-punctuation": ("without its punctuation", HOLDS),
    "negated": ("with its first verb of a closed list negated, or the negation taken out", FALLS),
    "synonyms": ("words replaced by a synonym of WordNet", HOLDS),
    "unknown": ("every content word replaced by letters that are no word", FALLS),
    "last-speaker": ("the last turn that the same speaker said before", FALLS),
}
_FUNCTION_WORD_LIST: Final = (
    "a about after all also an and any are as at be been before but by can could did do does for from had has have he "
    "her here him his how i if in into is it its just like me more my no not now of on one only or our out over she so "
    "some than that the their them then there these they this those to too up us was we were what when where which "
    "who will with would you your"
)
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
_VERB_LIST: Final = "is are was were am do does did can could will would should have has had must may"
_VERBS: Final = frozenset(_VERB_LIST.split())
_NEGATION: Final = re.compile(r"\s*\b(?:not|never)\b|n't\b|n’t\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def altered(seed: int, wordnet: WordNet | None) -> dict[str, Callable[[str, str], str]]:
    """Return the change of each stress but the last speaker's, of an item's id and a text; no synonyms without WordNet.

    A text that a stress does not change is returned as it is.
    """
    changes: dict[str, Callable[[str, str], str]] = {
        "reversed": lambda _item, text: " ".join(text.split()[::-1]),
        "no-stopwords": lambda _item, text: _without_function_words(text),
        "content-only": lambda _item, text: " ".join(_content_words(text)) or text,
        "no-punctuation": lambda _item, text: " ".join(_WORD.findall(text)) or text,
        "negated": lambda _item, text: negate(text),
        "unknown": lambda item, text: _unknown_words(text, random.Random(f"{seed}/unknown/{item}")),  # noqa: S311
    }
    if wordnet is not None:
        changes["synonyms"] = lambda _item, text: _WORD.sub(lambda match: synonym(match.group(), wordnet), text)
    return changes


def open_wordnet(folder: Path) -> WordNet | None:
    """Return WordNet, or None where it is not installed."""
    try:
        return WordNet.open(folder)
    except NotFound:
        return None


def negate(text: str) -> str:
    """Return the text with its first negation taken out, else with the first verb of a closed list negated."""
    if _NEGATION.search(text):
        return _NEGATION.sub("", text, count=1).strip()
    words = text.split()
    for place, word in enumerate(words):
        if word.lower().strip(".,!?") in _VERBS:
            return " ".join([*words[: place + 1], "not", *words[place + 1 :]])
    return f"not {text}" if text else text


def synonym(word: str, wordnet: WordNet) -> str:
    """Return the first synonym of a content word in its first synset that has one; the word itself without any."""
    lowered = word.lower()
    if lowered in _FUNCTION_WORDS:
        return word
    for synset in wordnet.synsets(lowered):
        for lemma in synset.lemmas():
            name = lemma.name()
            if name.lower() != lowered and name.isalpha():
                return name
    return word


def last_of_speaker(turns: Sequence[str]) -> str | None:
    """Return the last turn of the speaker who replies: the last but one; None in a shorter dialogue."""
    return turns[-2] if len(turns) > 1 else None


def _without_function_words(text: str) -> str:
    kept_words = [word for word in text.split() if word.lower().strip(".,!?'\"") not in _FUNCTION_WORDS]
    return " ".join(kept_words) or text


def _content_words(text: str) -> list[str]:
    tokens = WordTokenizer().tokenize(text)
    return [token for token in tokens if token[:1].isalnum() and token not in _FUNCTION_WORDS]


def _unknown_words(text: str, generator: random.Random) -> str:
    def replaced(match: re.Match[str]) -> str:
        word = match.group()
        if word.lower() in _FUNCTION_WORDS:
            return word
        return "".join(generator.choice(_LETTERS) for _ in word)

    return _WORD.sub(replaced, text)


# ── Stress rows of `refaug agreement probe` ───────────────────────────────────────────────────────────────────────────

NOT_ALTERED: Final = Problem("not_altered", "the alteration leaves the reply as it is")
NO_EARLIER_TURN: Final = Problem("no_earlier_turn", "the speaker has said nothing before")
NO_SUCH_GOLD: Final = Problem("no_such_gold", "no gold is so short or so long")
HELD: Final = 0.25  # standard deviations that a score which should hold may move
_DRAWS: Final = 1_000
_SHORT, _LONG = 5, 12  # words, at most and at least
_PROBES: Final = (
    Probe.SHUFFLED,
    Probe.PADDED,
    Probe.REPEATED,
    Probe.SHORT,
    Probe.GENERIC,
    Probe.PARROT,
    Probe.RANDOM,
    Probe.EMPTY,
)
Replies = list[str | Problem]


@dataclass(frozen=True, kw_only=True)
class StressRow:
    """What one alteration does to the scores of a metric; None where no reply was altered."""

    name: str
    expected: str  # falls or holds
    replies: int
    change: float | None  # in standard deviations; below 0 is worse, whatever the direction of the metric
    low: float | None
    high: float | None
    right: float | None  # share of the replies that move the right way
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class StressGroup:
    """The mean score of one of the seven groups, in standard deviations from the mean of all of them."""

    name: str
    replies: int
    mean: float | None
    score: float | None


@dataclass(frozen=True, kw_only=True)
class MetricStress:
    """All rows and groups under one metric."""

    metric: str
    rows: tuple[StressRow, ...]
    groups: tuple[StressGroup, ...]

    def as_json(self) -> dict[str, object]:
        """Return them as JSON."""
        return {
            "metric": self.metric,
            "rows": [asdict(row) for row in self.rows],
            "groups": [asdict(group) for group in self.groups],
        }


def stress(
    items: Sequence[Item],
    metrics: Sequence[Metric],
    settings: ProbeSettings,
    progress: Progress,
    *,
    wordnet: Path = WORDNET,
) -> list[MetricStress]:
    """Return the stress rows of every metric."""
    bases = _bases(items, settings)
    replies, groups = dict(stress_replies(items, bases, settings, wordnet)), reply_groups(items, settings)
    return [_of_metric(items, metric, bases, replies, groups, settings, progress) for metric in metrics]


def _bases(items: Sequence[Item], settings: ProbeSettings) -> Replies:
    if settings.base is not None:
        return [item.replies.get(settings.base, NO_REPLY) for item in items]
    return make_probes(items, settings)[Probe.GOLD]


def stress_replies(
    items: Sequence[Item], bases: Sequence[str | Problem], settings: ProbeSettings, wordnet: Path
) -> Iterator[tuple[str, Replies]]:
    """Yield the altered replies by name: those of the probes, then those of the stresses."""
    probes = make_probes(items, settings)
    for kind in _PROBES:
        yield kind.value, probes[kind]
    changes = altered(settings.seed, open_wordnet(wordnet))
    for name in STRESSES:
        if name == "last-speaker":
            yield name, [last_of_speaker(item.turns) or NO_EARLIER_TURN for item in items]
        elif name in changes:
            pairs = zip(items, bases, strict=True)
            yield name, [base if isinstance(base, Problem) else changes[name](item.id, base) for item, base in pairs]
        else:
            yield name, [Problem("no_wordnet", "WordNet is not installed")] * len(items)


def reply_groups(items: Sequence[Item], settings: ProbeSettings) -> dict[str, Replies]:
    """Return the seven groups: a reply of each to each item, or why there is none."""
    own = [[ref.text for ref in item.references if ref.source is Origin.GOLD] for item in items]
    probes, unknown = make_probes(items, settings), altered(settings.seed, None)["unknown"]
    golds = probes[Probe.GOLD]
    order = np.random.default_rng(settings.seed).permutation(len(items)).tolist()
    shifted = {place: order[(at + 1) % len(order)] for at, place in enumerate(order)}
    short = [_first(texts, most=_SHORT) for texts in own]
    long = [_first(texts, least=_LONG) for texts in own]
    return {
        "relevant, short": [text or NO_SUCH_GOLD for text in short],
        "relevant, long": [text or NO_SUCH_GOLD for text in long],
        "irrelevant, short": [_elsewhere(short, shifted, place) for place in range(len(items))],
        "irrelevant, long": [_elsewhere(long, shifted, place) for place in range(len(items))],
        "generic": probes[Probe.GENERIC],
        "unknown words": [
            gold if isinstance(gold, Problem) else unknown(item.id, gold)
            for item, gold in zip(items, golds, strict=True)
        ],
        "gold": golds,
    }


def _first(texts: Sequence[str], *, least: int = 1, most: int = 10_000) -> str | None:
    """Return the last gold of so many words: where there are several golds, not the first, which is the reference."""
    return next((text for text in reversed(texts) if least <= len(text.split()) <= most), None)


def _elsewhere(texts: Sequence[str | None], shifted: Mapping[int, int], place: int) -> str | Problem:
    """Return the text of the next other item in a drawn ring that has one."""
    at = shifted[place]
    while at != place:
        if (text := texts[at]) is not None:
            return text
        at = shifted[at]
    return NO_SUCH_GOLD


# ── Scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_metric(
    items: Sequence[Item],
    metric: Metric,
    bases: Replies,
    replies: Mapping[str, Replies],
    groups: Mapping[str, Replies],
    settings: ProbeSettings,
    progress: Progress,
) -> MetricStress:
    rows = [bases, *replies.values(), *groups.values()]
    progress.stage(f"stress {metric.name}", len(rows) * len(items), "replies")
    chosen = [references_for(metric, item.references, item.turns) for item in items]
    every, references = list(chain.from_iterable(rows)), chosen * len(rows)
    bound = bind_metric(metric, chosen, every, references)
    sign = 1.0 if metric.info.higher_is_better else -1.0
    statistics, _ = score_replies(bound, every, references, progress)
    values = sign * bound.values(statistics, Level.REPLY).reshape(len(rows), len(items))
    # An empty reply gets the least of a scale, which may lie far below all others: it must not set the unit.
    is_empty = np.array([name == Probe.EMPTY.value for name in ["", *replies, *groups]])
    spoken = values[~is_empty]
    defined = spoken[np.isfinite(spoken)]
    spread = float(defined.std()) if len(defined) else 0.0
    of_replies, of_groups = values[1 : len(replies) + 1], values[len(replies) + 1 :]
    return MetricStress(
        metric=metric.name,
        rows=tuple(
            _row(name, listed, own, bases, values[0], spread, settings.seed)
            for (name, listed), own in zip(replies.items(), of_replies, strict=True)
        ),
        groups=tuple(_groups(list(groups), of_groups, sign, spread)),
    )


def _row(name: str, listed: Replies, own: Floats, bases: Replies, base: Floats, spread: float, seed: int) -> StressRow:
    expected = STRESSES[name][1] if name in STRESSES else FALLS
    is_altered = np.array([reply != other for reply, other in zip(listed, bases, strict=True)], dtype=np.bool_)
    counted = is_altered & np.isfinite(own) & np.isfinite(base)
    if counted.sum() < 2 or not spread:
        why = next((reply.message for reply in listed if isinstance(reply, Problem)), NOT_ALTERED.message)
        return StressRow(
            name=name,
            expected=expected,
            replies=int(counted.sum()),
            change=None,
            low=None,
            high=None,
            right=None,
            why=why,
        )
    changes = (own - base)[counted] / spread
    drawn = np.concatenate([counts @ changes / len(changes) for counts in count_blocks(len(changes), _DRAWS, seed)])
    low, high = percentile_interval(drawn, 0.95)
    is_right = np.abs(changes) <= HELD if expected == HOLDS else changes < 0
    return StressRow(
        name=name,
        expected=expected,
        replies=len(changes),
        change=float(changes.mean()),
        low=low,
        high=high,
        right=float(is_right.mean()),
    )


def _groups(names: Sequence[str], values: Floats, sign: float, spread: float) -> Iterator[StressGroup]:
    defined = values[np.isfinite(values)]
    centre = float(defined.mean()) if len(defined) else 0.0
    for name, own in zip(names, values, strict=True):
        finite = own[np.isfinite(own)]
        has_any = bool(len(finite)) and spread > 0
        yield StressGroup(
            name=name,
            replies=len(finite),
            mean=(float(finite.mean()) - centre) / spread if has_any else None,
            score=sign * float(finite.mean()) if len(finite) else None,
        )
