"""refaug-1, the recommended metric: a reply beside the golds, the turns before it, and what others said in their place.

With cos the cosine of an encoder's sentence vectors, the parts of a reply h are

    gold       the largest cos(h, gold)
    words      the largest chrF of h and a gold, in lower case
    turn       cos(h, the last turn), folded
    turns      cos(h, the last three turns as one text), folded
    retrieved  the mean of the three largest cos(h, r) over references r of positive weight beside the golds, without
               those whose text is that of h

Folded is min(c, m) − 3 · max(c − m, 0): a true reply is like what it answers up to m, the 90th percentile over pairs
of a log, and a reply that is more like it repeats it. The parts are added with fixed shares, 1, .3, .5, .5 and 1;
without a gold, the retrieved references have its share as well. The sum counts as z, its distance from the mean of
replies that were drawn from the log, in their standard deviations. Two guards look at the words of a reply:

    copied     the share of its words in runs of three or more that one of the last three turns has
    order      how likely its words follow each other, beside what their frequencies tell

With copied⁺ the excess over the 99th percentile of true replies, and order⁻ what is missing to their first, the score
is 1 / (1 + exp(−(a + b · z − c · copied⁺ − o · order⁻))). The log gives a, b, c and o: the probability that a reply is
a true one, where true replies, drawn ones, frequent ones, searched constants and copies of the turns are equally
likely. The shares, the fold and the number of references were chosen while looking at rated sets and at attacks, as
round numbers near the best on several sets and for none exactly; nothing else has seen a rating by a person
(docs/proof.md).

The numbers of the log are the calibration, which is part of the version: `refaug_1.json` has them, with what they were
made of. They belong to one encoder, which is part of the version, too. With another encoder it is another metric,
`refaug-1:encoder=NAME`, whose numbers lie beside that encoder.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from refaug.core.errors import Corrupt, MissingPart, NotFound, Usage
from refaug.core.text.normalisation import normalise, normalised_words
from refaug.metrics.base import (
    NO_POSITIVE_WEIGHT,
    NO_REFERENCE,
    Floats,
    Indexes,
    Level,
    MeanMetric,
    Prepared,
    Problem,
    References,
)
from refaug.metrics.catalogue import find
from refaug.metrics.embeddings.encoder_metrics import NO_TOKENS
from refaug.metrics.embeddings.reply_guards import (
    ANY_ORDER,
    NO_GUARD,
    ReplyGuard,
    WordOrder,
    Words,
    copied_share,
    excess,
)
from refaug.metrics.metric_info import MetricInfo
from refaug.metrics.models.model_kinds import OpenedEncoder, PathVectors, VectorOpener
from refaug.metrics.single_reference import DistinctTexts
from refaug.metrics.specification import Specification, build_of, settings_of

SIMILARITIES: Final = ("gold", "words", "turn", "turns", "retrieved")
PARTS: Final = (*SIMILARITIES, "copied", "order")
OTHER_METRIC: Final = "or name a metric that needs no encoder, such as upsilon-bleu"
TURN_END: Final = "\x1e"  # the record separator, which is in no text that people write
_GOLD, _WORDS, _TURN, _TURNS, _RETRIEVED, _COPIED, _ORDER = range(len(PARTS))
_SHARES: Final = np.array([1.0, 0.3, 0.5, 0.5, 1.0])
_FOLD: Final = 3.0
_BEST: Final = 3  # retrieved references that count
_LEAST_LENGTH: Final = 1e-6
_MOST_UNKNOWN: Final = 0.05  # of the pieces; more is another language, or another alphabet
_PAIRS_AT_ONCE: Final = 2**14
_NAME: Final = "refaug-1"
_CALIBRATION: Final = "refaug_1.json"
_CALIBRATE: Final = "refaug index encoder calibrate NAME --index INDEX"


@dataclass(frozen=True, kw_only=True)
class MetricCalibration:
    """What a log tells of the parts, for one encoder."""

    encoder: str  # its name and the hash of its content
    most_like: Mapping[str, float]  # the part → the 90th percentile of true replies
    drawn: Mapping[str, tuple[float, float]]  # which parts there are → mean and deviation of sums of drawn replies
    link: tuple[float, float]  # a and b
    copied: ReplyGuard = NO_GUARD
    order: ReplyGuard = NO_GUARD
    word_order: WordOrder = ANY_ORDER
    sha256: str  # of all of it

    @classmethod
    def read(cls, content: bytes) -> MetricCalibration:
        """Read the calibration from its file; Corrupt where it is none."""
        try:
            fields: dict[str, Any] = orjson.loads(content)
            return cls(
                encoder=str(fields["encoder"]),
                most_like={part: float(fields["most_like"][part]) for part in ("turn", "turns")},
                drawn={case: (float(mean), float(deviation)) for case, (mean, deviation) in fields["drawn"].items()},
                link=(float(fields["link"][0]), float(fields["link"][1])),
                copied=_guard(fields["copied"]),
                order=_guard(fields["order"]),
                word_order=WordOrder.read(fields["word_order"]["words"], fields["word_order"]["logs"]),
                sha256=hashlib.sha256(content).hexdigest(),
            )
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error) as error:
            raise Corrupt(f"a calibration of refaug-1 cannot be read: {error!r}", remedy=_CALIBRATE) from error


def _guard(fields: Sequence[float]) -> ReplyGuard:
    limit, slope = fields
    return ReplyGuard(limit=float(limit), slope=float(slope))


@cache
def own_calibration() -> MetricCalibration:
    """Return the calibration of refaug-1."""
    return MetricCalibration.read(files("refaug.metrics.embeddings").joinpath(_CALIBRATION).read_bytes())


def name_with(encoder: str) -> str:
    """Return the name of the metric with an encoder: the bare one only with that of the version."""
    is_own = _content_of(encoder) == _content_of(own_calibration().encoder)
    return _NAME if is_own else f"{_NAME}:encoder={_name_of(encoder)}"


def require_found_by(encoder: str, vectors: str) -> None:
    """Raise Usage where references are compared by one encoder, and another one finds them."""
    if _content_of(vectors) != _content_of(encoder):
        raise Usage(
            f"{name_with(encoder)} compares by the encoder {encoder}, and its references were found by {vectors}",
            remedy=f"an index built with --encoder {_name_of(encoder)}, or -m {_NAME}:encoder={_name_of(vectors)}",
        )


@dataclass(frozen=True, kw_only=True)
class PreparedItems(Prepared):
    """The vectors of all texts of the items; those of item i are rows `golds[i]`, `turns[i]` and `retrieved[i]`."""

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    golds: Sequence[Indexes]
    turns: Sequence[Indexes]  # the last turn, and the last three; none where the dialogue begins with the reply
    retrieved: Sequence[Indexes]
    turn_words: Sequence[Sequence[Words]]  # of each of the last three turns
    words: Prepared


class Recommended(MeanMetric):
    """The metric with its encoder and its calibration."""

    columns = ("total", "replies", *PARTS, "with_gold", "with_retrieved", "cut", "pieces", "unknown")
    turns = 3
    turn_separator = TURN_END

    def __init__(
        self,
        info: MetricInfo,
        settings: Mapping[str, str],
        source: VectorOpener | None = None,
        calibration: MetricCalibration | None = None,
    ) -> None:
        self.info = info
        own = own_calibration()
        opened = _open(settings["encoder"] or own.encoder, own, source)
        self._encoder, self._content = opened.encoder, _content_of(opened.spec)
        is_own = self._content == _content_of(own.encoder)
        self.calibration = calibration or (own if is_own else _calibration_of(opened))
        self.settings = {"encoder": opened.spec, "calibration": self.calibration.sha256[:12]}
        chrf = find("chrf")
        self._words = build_of(chrf, settings_of(chrf, Specification("chrf", (("case", "lc"),)), {}))

    @property
    def name(self) -> str:
        """The name that results have: the bare one only with the encoder of the version."""
        return name_with(self.settings["encoder"])

    def require_found_by(self, vectors: str) -> None:
        """Raise Usage for references that another encoder found, by its name and content."""
        require_found_by(self.settings["encoder"], vectors)

    def versions(self) -> Mapping[str, str]:
        """Return the encoder's."""
        return {"encoder": self._encoder.version}

    def reading_cost(self, references: Floats) -> Floats:
        """Return the units of encoding texts and of counting their n-grams."""
        return super().reading_cost(references) + self._words.reading_cost(references)

    def cost(self, replies: Floats, references: Floats) -> Floats:
        """Return the units of encoding, and of chrF, which reads the whole of a text that the encoder cuts."""
        return super().cost(replies, references) + self._words.cost(replies, references)

    def undefined(self) -> Problem:
        """The reply has no tokens; references without any are left out."""
        return NO_TOKENS

    def prepare(self, references: Sequence[References]) -> PreparedItems:
        """Encode every distinct text of the items once."""
        golds = [of_item.beside.texts if of_item.beside is not None else () for of_item in references]
        turns = [_turns_of(of_item) for of_item in references]
        retrieved = [_further(of_item, set(own)) for of_item, own in zip(references, golds, strict=True)]
        distinct = DistinctTexts.of([text for texts in (*golds, *turns, *retrieved) for text in texts])
        vectors = self._encoder.sentence_vectors(distinct.texts)
        number_of = {text: number for number, text in enumerate(distinct.texts)}
        is_usable = np.asarray(np.isfinite(vectors).all(axis=1))

        def rows(texts: Sequence[str]) -> Indexes:
            numbers = np.array([number_of[text] for text in texts], dtype=np.int64)
            return np.asarray(numbers[is_usable[numbers]])

        prepared = PreparedItems(
            items=len(references),
            problems={},
            texts=[normalise(text) for text in distinct.texts],
            vectors=vectors,
            golds=[rows(texts) for texts in golds],
            turns=[rows(texts) for texts in turns],
            retrieved=[rows(texts) for texts in retrieved],
            turn_words=[[normalised_words(turn) for turn in _separate_turns_of(of_item)] for of_item in references],
            words=self._words.prepare([References.unweighted(texts) for texts in golds]),
        )
        problems = {
            place: NO_REFERENCE if golds[place] or retrieved[place] else NO_POSITIVE_WEIGHT
            for place in range(len(references))
            if not len(prepared.golds[place]) + len(prepared.retrieved[place])
        }
        return PreparedItems(**{**vars(prepared), "problems": problems})

    def statistics(
        self, replies: Sequence[str], prepared: Prepared, reply_places: Indexes, item_places: Indexes
    ) -> Floats:
        """Return a score, a count, and the parts of each row."""
        assert isinstance(prepared, PreparedItems)
        distinct = DistinctTexts.of(replies)
        vectors = self._encoder.sentence_vectors(distinct.texts)
        numbers = distinct.numbers[reply_places]
        parts = self._parts(distinct.texts, vectors, numbers, prepared, item_places)
        words = self._words.statistics(replies, prepared.words, reply_places, item_places)
        parts[:, _WORDS] = np.nan_to_num(self._words.values(words, Level.REPLY))
        has_gold = np.array([len(prepared.golds[item]) > 0 for item in item_places.tolist()], dtype=np.bool_)
        has_retrieved = ~np.isnan(parts[:, _RETRIEVED])
        scores = self.scores(parts, has_gold, has_retrieved)
        empty = np.array([not text.strip() for text in distinct.texts], dtype=np.bool_)[numbers]
        scores[empty] = 0
        scores[np.isin(item_places, list(prepared.problems))] = np.nan
        reading = (of_text[numbers] for of_text in self._encoder.reading_of(distinct.texts))
        counts = (np.ones(len(scores)), *np.nan_to_num(parts.T), has_gold, has_retrieved, *reading)
        rows = np.stack([scores, *counts], axis=-1)
        rows[np.isnan(scores)] = np.nan
        return np.asarray(rows)

    def _parts(
        self,
        texts: Sequence[str],
        vectors: NDArray[np.float32],
        numbers: Indexes,
        prepared: PreparedItems,
        item_places: Indexes,
    ) -> Floats:
        """Return the parts (rows, parts) without `words`; NaN where a row lacks one."""
        normalised = [normalise(text) for text in texts]
        words = [normalised_words(text) for text in texts]
        likelihoods = np.array([self.calibration.word_order.likelihood(of_text) for of_text in words])
        own = [
            _without_copies(prepared, item, normalised[number])
            for number, item in zip(numbers.tolist(), item_places.tolist(), strict=True)
        ]
        of_rows = [
            np.concatenate([prepared.golds[item], prepared.turns[item], further])
            for item, further in zip(item_places.tolist(), own, strict=True)
        ]
        counts = np.array([len(rows) for rows in of_rows], dtype=np.int64)
        cosines = _cosines(
            vectors, np.repeat(numbers, counts), prepared.vectors, np.concatenate([*of_rows, np.empty(0, np.int64)])
        )
        parts = np.full((len(numbers), len(PARTS)), np.nan)
        parts[:, _ORDER] = likelihoods[numbers]
        first = 0
        for row, item in enumerate(item_places.tolist()):
            golds, turns = len(prepared.golds[item]), len(prepared.turns[item])
            parts[row, _COPIED] = copied_share(words[numbers[row]], prepared.turn_words[item])
            of_row = cosines[first : first + counts[row]]
            first += counts[row]
            if golds:
                parts[row, _GOLD] = of_row[:golds].max()
            if turns:
                parts[row, _TURN], parts[row, _TURNS] = of_row[golds], of_row[golds + turns - 1]
            if len(of_row) > golds + turns:
                parts[row, _RETRIEVED] = np.sort(of_row[golds + turns :])[-_BEST:].mean()
        return parts

    def sums(self, parts: Floats, has_gold: NDArray[np.bool_], has_retrieved: NDArray[np.bool_]) -> Floats:
        """Return the sum of each row's parts by their shares, of those that it has."""
        shares = self.shares(has_gold, has_retrieved)
        return np.asarray((shares * np.nan_to_num(self.folded(parts)[:, : len(SIMILARITIES)])).sum(axis=1))

    def shares(self, has_gold: NDArray[np.bool_], has_retrieved: NDArray[np.bool_]) -> Floats:
        """Return the share of each part in each row's sum, by the references that there are."""
        shares = np.tile(_SHARES, (len(has_gold), 1))
        shares[~has_gold, _RETRIEVED] += _SHARES[_GOLD]
        shares[~has_gold, _GOLD] = shares[~has_gold, _WORDS] = 0
        shares[~has_retrieved, _RETRIEVED] = 0
        return shares

    def folded(self, parts: Floats) -> Floats:
        """Return parts in which likeness to the turns counts against a reply beyond that of true ones."""
        folded = parts.copy()
        for part in (_TURN, _TURNS):
            most = self.calibration.most_like[PARTS[part]]
            folded[:, part] = np.minimum(parts[:, part], most) - _FOLD * np.maximum(parts[:, part] - most, 0)
        return folded

    def penalties(self, parts: Floats) -> Floats:
        """Return what the guards take from each row: copied runs of words, and words in an unlikely order."""
        copied, order = self.guard_penalties(parts)
        return np.asarray(copied + order)

    def guard_penalties(self, parts: Floats) -> tuple[Floats, Floats]:
        """Return what each of the two guards takes from each row."""
        copied, order = self.calibration.copied, self.calibration.order
        return (
            np.asarray(copied.slope * excess(parts[:, _COPIED], copied.limit)),
            np.asarray(order.slope * excess(-parts[:, _ORDER], -order.limit)),
        )

    def log_odds(self, parts: Floats, has_gold: NDArray[np.bool_], has_retrieved: NDArray[np.bool_]) -> Floats:
        """Return the logarithm of the odds of each row; NaN where it has neither gold nor retrieved references."""
        sums, odds = self.sums(parts, has_gold, has_retrieved), np.full(len(parts), np.nan)
        for case, drawn in self.calibration.drawn.items():
            is_case = (has_gold == ("gold" in case)) & (has_retrieved == ("retrieved" in case))
            odds[is_case] = self._odds_of_sums(sums[is_case], drawn)
        return odds - np.nan_to_num(self.penalties(parts))

    def _odds_of_sums(self, sums: Floats, drawn: tuple[float, float]) -> Floats:
        """Return log-odds of sums beside those of drawn replies, by their mean and deviation."""
        (a, b), (mean, deviation) = self.calibration.link, drawn
        return np.asarray(a + b * (sums - mean) / deviation)

    def scores(self, parts: Floats, has_gold: NDArray[np.bool_], has_retrieved: NDArray[np.bool_]) -> Floats:
        """Return the score of each row of parts; NaN where it has neither gold nor retrieved references."""
        scores = _logistic(self.log_odds(parts, has_gold, has_retrieved))
        return np.where(np.isnan(parts[:, _GOLD]) & has_gold, np.nan, scores)

    def parts(self, sums: Floats, level: Level) -> dict[str, object]:
        """Return the mean of each part over the replies that have it, and how the encoder reads them.

        `cut` is the number of replies that are longer than it reads, `unknown` the share of unknown pieces.
        """
        del level
        of = dict(zip(self.columns, sums.tolist(), strict=True))
        counts = {"gold": "with_gold", "words": "with_gold", "retrieved": "with_retrieved"}
        means = {
            part: of[part] / of[counts.get(part, "replies")] if of[counts.get(part, "replies")] else None
            for part in PARTS
        }
        unknown = of["unknown"] / of["pieces"] if of["pieces"] else None
        return {"replies": of["replies"], **means, "cut": of["cut"], "unknown": unknown}

    # ── Why a reply has its score ─────────────────────────────────────────────────────────────────────────────────────

    def combination(self, reply: str, references: References, row: Floats) -> dict[str, object] | None:
        """Return the parts of a reply's score, what each says alone, and what makes the score of them.

        The sum of what the parts add is set beside drawn replies, which gives `unguarded`; the guards take theirs from
        its log-odds. A part says alone what `unguarded` would be if every part counted like it: by their shares, the
        log-odds of these make its own. An empty reply has no parts.
        """
        if not reply.strip():
            return None
        of = dict(zip(self.columns, row.tolist(), strict=True))
        parts = np.array([[of[part] for part in PARTS]])
        has_gold, has_retrieved = (np.array([of[name] > 0]) for name in ("with_gold", "with_retrieved"))
        shares, folded = self.shares(has_gold, has_retrieved)[0], self.folded(parts)[0]
        has_turns = bool(_turns_of(references))
        is_there = [share > 0 and (has_turns or place not in (_TURN, _TURNS)) for place, share in enumerate(shares)]
        drawn = self.calibration.drawn[_case_of(bool(has_gold[0]), bool(has_retrieved[0]))]
        alone = _logistic(self._odds_of_sums(shares[is_there].sum() * folded[: len(shares)], drawn))
        total = self.sums(parts, has_gold, has_retrieved)
        return {
            "parts": [
                {
                    "part": part,
                    "value": float(parts[0, place]),
                    "counted": float(folded[place]),
                    "share": float(shares[place]),
                    "adds": float(shares[place] * folded[place]),
                    "alone": float(alone[place]),
                }
                for place, part in enumerate(SIMILARITIES)
                if is_there[place]
            ],
            "sum": float(total[0]),
            "drawn": {"mean": drawn[0], "deviation": drawn[1]},
            "link": dict(zip(("a", "b"), self.calibration.link, strict=True)),
            "unguarded": float(_logistic(self._odds_of_sums(total, drawn))[0]),
            "guards": [
                {"guard": PARTS[place], "value": float(parts[0, place]), "limit": guard.limit, "takes": float(takes[0])}
                for place, guard, takes in zip(
                    (_COPIED, _ORDER),
                    (self.calibration.copied, self.calibration.order),
                    self.guard_penalties(parts),
                    strict=True,
                )
            ],
            "log_odds": float(self.log_odds(parts, has_gold, has_retrieved)[0]),
            "is_cut": of["cut"] > 0,
            "unknown": of["unknown"] / of["pieces"] if of["pieces"] else None,
        }

    def likenesses(self, reply: str, references: References) -> list[dict[str, object]]:
        """Return the cosine of a reply with each gold, and with each retrieved reference that has a weight.

        Of the golds the most similar one counts, of the others the three most similar; its own text does not.
        """
        golds = references.beside.texts if references.beside is not None else ()
        texts = (*golds, *_further(references, set(golds)))
        vectors = self._encoder.sentence_vectors([reply, *texts])
        cosines = _cosines(vectors, np.zeros(len(texts), np.int64), vectors, np.arange(1, len(texts) + 1)).tolist()
        falling = sorted(np.flatnonzero(~np.isnan(cosines)).tolist(), key=lambda at: (-cosines[at], at))
        own = normalise(reply)
        further = [at for at in falling if at >= len(golds) and normalise(texts[at]) != own]
        counted = {*[at for at in falling if at < len(golds)][:1], *further[:_BEST]}
        return [
            {
                "text": texts[at],
                "kind": "gold" if at < len(golds) else "retrieved",
                "similarity": cosines[at],
                "counts": at in counted,
            }
            for at in falling
        ]

    def counted_references(self, reply: str, references: References) -> Sequence[int]:
        """Return the places of the golds, and of the retrieved references that are most similar."""
        golds = references.beside.texts if references.beside is not None else ()
        texts = {*golds, *(like["text"] for like in self.likenesses(reply, references) if like["counts"])}
        return [place for place, text in enumerate(references.texts) if text in texts]

    def remarks_on(self, sums: Floats) -> tuple[str, ...]:
        """Warn of replies whose end is not read, and of a language that the encoder does not know."""
        of, encoder = dict(zip(self.columns, sums.tolist(), strict=True)), _name_of(self.settings["encoder"])
        remarks = list[str]()
        if of["cut"]:
            remarks.append(
                f"{self.name}: {of['cut']:,.0f} of {of['replies']:,.0f} replies are longer than the encoder {encoder} "
                f"reads, {self._encoder.max_length:,} tokens; their ends count in chrF alone"
            )
        if of["unknown"] > _MOST_UNKNOWN * of["pieces"]:
            remarks.append(
                f"{self.name}: the encoder {encoder} does not know {of['unknown']:,.0f} of the {of['pieces']:,.0f} "
                f"pieces of the replies ({100 * of['unknown'] / of['pieces']:.0f} %): their language may be another"
            )
        return tuple(remarks)


def _open(spec: str, own: MetricCalibration, source: VectorOpener | None) -> OpenedEncoder:
    """Open the encoder; the error of the version's own says how to get it."""
    try:
        return (source or PathVectors()).encoder(spec)
    except NotFound as error:
        if spec != own.encoder:
            raise
        name = _name_of(own.encoder)
        raise MissingPart(
            f"metric `refaug-1` needs the encoder {name}, and this home does not have it",
            remedy=f"refaug index encoder add {name}",
        ) from error


def _calibration_of(opened: OpenedEncoder) -> MetricCalibration:
    """Return the numbers of another encoder than the version's; Usage where they were not measured."""
    name = _name_of(opened.spec)
    remedy = f"{_CALIBRATE.replace('NAME', name)}, an index that was built with it; or leave encoder out"
    if not opened.calibration:
        raise Usage(f"refaug-1 has no numbers for the encoder {opened.spec}", remedy=remedy)
    calibration = MetricCalibration.read(opened.calibration)
    if _content_of(calibration.encoder) != _content_of(opened.spec):
        raise Usage(
            f"the calibration beside the encoder {opened.spec} is of {calibration.encoder}, another one", remedy=remedy
        )
    return calibration


def _name_of(spec: str) -> str:
    return spec.partition("#")[0].partition("@")[0]


def _content_of(spec: str) -> str:
    return spec.partition("#")[2]


def _turns_of(references: References) -> tuple[str, ...]:
    """Return the last turn, and the last turns as one text; nothing where no turn comes before the reply."""
    turns = _separate_turns_of(references)
    return (turns[-1], " ".join(turns)) if any(map(str.strip, turns)) else ()


def _separate_turns_of(references: References) -> list[str]:
    beside = references.beside
    return (beside.utterance or "").split(TURN_END) if beside is not None else []


def _case_of(has_gold: bool, has_retrieved: bool) -> str:
    return "+".join((["gold"] if has_gold else []) + (["retrieved"] if has_retrieved else []))


def _logistic(log_odds: Floats) -> Floats:
    return np.asarray((1 + np.tanh(log_odds / 2)) / 2)  # never too large


def _further(references: References, golds: set[str]) -> tuple[str, ...]:
    pairs = zip(references.texts, references.weights, strict=True)
    return tuple(text for text, weight in pairs if weight > 0 and text not in golds)


def _without_copies(prepared: PreparedItems, item: int, reply: str) -> Indexes:
    """Return the retrieved references that do not have the reply's own text."""
    rows = prepared.retrieved[item]
    return rows[[prepared.texts[row] != reply for row in rows.tolist()]] if len(rows) else rows


def _cosines(
    replies: NDArray[np.float32], reply_rows: Indexes, others: NDArray[np.float32], other_rows: Indexes
) -> Floats:
    """Return the cosine of each pair, each summed by itself in double precision: equal in any batch."""
    cosines = np.empty(len(reply_rows))
    for first in range(0, len(reply_rows), _PAIRS_AT_ONCE):
        pairs = slice(first, first + _PAIRS_AT_ONCE)
        one, other = replies[reply_rows[pairs]].astype(np.float64), others[other_rows[pairs]].astype(np.float64)
        lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
        cosines[pairs] = (one * other).sum(axis=1) / np.maximum(lengths, _LEAST_LENGTH)
    return cosines
