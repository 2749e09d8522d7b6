"""The candidates tried as metrics: a list written down before anything is scored, each with the reason to try it.

A candidate is a metric on a kind of further references, or a sum of the ranks of other candidates. `Trial` computes
each of them once, from one index and one rater.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from refaug.core.errors import Usage
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.judge_trials.judge_lines import even_line
from refaug.evaluation.reproduction.material import reference_kinds
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.indexer.search.search_settings import Mode
from refaug.metrics.base import Metric
from refaug.metrics.models.ruber import Ruber
from refaug.metrics.specification import build
from refaug.rater.rating import Rater

BEST: Final = "best"  # of a hundred retrieved references, the k that the rater rates best, each with weight 1
VECTORS: Final = "{vectors}"  # stands for the folder of the proof's word vectors
GREEDY: Final = f"weighting=sif,vectors={VECTORS},measure=f"
_GREEDY_PART: Final = "weighting=sif;measure=f"
EMBEDDING: Final[Mode] = "embedding-utterance"
WORDS: Final[Mode] = "bm25-utterance"
Family = Literal["bleu", "greedy", "rater", "sum", "judge", "other"]


@dataclass(frozen=True, kw_only=True)
class MetricCandidate:
    """A metric on a kind of references, or the sum of the ranks of several candidates, or a judge made of them."""

    name: str
    why: str
    family: Family
    metric: str = ""  # a specification
    kind: str = "gold"  # of further references: one of `references.KINDS`, or best
    mode: Mode = EMBEDDING
    k: int = 15
    parrot: bool = False
    sum_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.metric) == bool(self.sum_of):
            raise Usage(f"{self.name} is a metric or a sum of others, not both")

    def as_json(self) -> dict[str, object]:
        """Return the fields that are set, as the list is published."""
        return {key: setting for key, setting in asdict(self).items() if setting not in ("", ())}


def _bleu(penalty: str, kind: str, mode: Mode) -> MetricCandidate:
    reasons = {
        "closest": "as published",
        "none": "many lengths switch a penalty off anyway",
        "gold": "length by the gold",
    }
    return MetricCandidate(
        name=f"υBLEU, {_mode_in_words(mode)}, {kind}, {penalty}",
        why=reasons[penalty],
        family="bleu",
        metric=f"upsilon-bleu:bp={penalty}",
        kind=kind,
        mode=mode,
    )


def _greedy(aggregate: str, keep_gold: bool, kind: str, mode: Mode) -> MetricCandidate:
    keep = ",keep-gold=yes" if keep_gold else ""
    return MetricCandidate(
        name=f"υ-greedy, {_mode_in_words(mode)}, {kind}, {aggregate}{' and gold' if keep_gold else ''}",
        why="soft matches, rare words weighted up" + ("; the gold stays in the sum" if keep_gold else ""),
        family="greedy",
        metric=f"upsilon-greedy:agg={aggregate}{keep},{GREEDY}",
        kind=kind,
        mode=mode,
    )


def _greedy_best(measure: str, k: int) -> MetricCandidate:
    """Match with the best of many references, with another measure of how words have to match."""
    why = {"f": "more to match with", "mean": "as published", "precision": "a reply need not say all of a reference"}
    return MetricCandidate(
        name=f"υ-greedy, words, one, best, {measure}, k={k}",
        why=why[measure],
        family="greedy",
        metric=f"upsilon-greedy:agg=best,{GREEDY.replace('measure=f', f'measure={measure}')}",
        kind=reference_kinds.ONE,
        mode=WORDS,
        k=k,
    )


def _mode_in_words(mode: Mode) -> str:
    return "vectors" if mode == EMBEDDING else "words"


GREEDY_GOLD: Final = MetricCandidate(
    name="greedy, gold",
    why="soft matches with the gold alone",
    family="greedy",
    metric=f"upsilon-greedy:{GREEDY}",
)
REPLY: Final = MetricCandidate(
    name="rater on the reply", why="needs no matching words", family="rater", metric="rater:target=reply"
)
REPLY_TO_THREE: Final = MetricCandidate(
    name="rater on the reply, three turns",
    why="what was said before the utterance counts too",
    family="rater",
    metric="rater:target=reply,turns=3",
)


GREEDY_BY_WORDS: Final = _greedy_best("f", 50)
RECOMMENDED: Final = MetricCandidate(
    name="blend: rater, three turns + υ-greedy, words, one, best, k=50",
    why="needs no other replies to be ranked among",
    family="sum",
    metric=f"ruber:referenced=upsilon-greedy;agg=best;{_GREEDY_PART},unreferenced=rater;turns=3,vectors={VECTORS}",
    kind=reference_kinds.ONE,
    mode=WORDS,
    k=50,
)
CHRF_GOLD: Final = MetricCandidate(
    name="chrF, gold", why="characters in common with the gold", family="other", metric="chrf"
)
EVEN_JUDGE: Final = MetricCandidate(
    name="judge: rater, three turns + υ-greedy, words + chrF, equal weights, length held",
    why="learns no taste of raters; scores a single reply",
    family="judge",
    sum_of=(REPLY_TO_THREE.name, GREEDY_BY_WORDS.name, CHRF_GOLD.name),
)


def all_candidates() -> tuple[MetricCandidate, ...]:
    """Return all candidates in the order in which they were thought of, those without sums first."""
    kinds, modes = (reference_kinds.ONE, reference_kinds.RATED, BEST), (EMBEDDING, WORDS)
    bleus = [_bleu(bp, kind, mode) for mode in modes for kind in kinds for bp in ("closest", "gold", "none")]
    greedies = [
        _greedy(aggregate, keep, kind, mode)
        for mode in modes
        for kind in kinds
        for aggregate, keep in (("best", False), ("mean-best-3", True), ("weighted-best", False))
    ]
    further = [_greedy_best(measure, k) for measure in ("mean", "precision") for k in (15, 50)] + [
        _greedy_best("f", 50)
    ]
    matching = (*bleus, *greedies, *further)
    sums = [
        MetricCandidate(
            name=f"ranks: {label} + {candidate.name}",
            why="what the rater says and what is matched are complementary",
            family="sum",
            sum_of=(rater.name, candidate.name),
        )
        for label, rater in (("rater", REPLY), ("rater, three turns", REPLY_TO_THREE))
        for candidate in matching
        if candidate.family == "greedy" or candidate.metric.endswith("bp=none")
    ]
    triples = [
        MetricCandidate(
            name=f"ranks: rater + greedy, gold + {candidate.name}",
            why="the gold counts as much as everything retrieved",
            family="sum",
            sum_of=(REPLY.name, GREEDY_GOLD.name, candidate.name),
        )
        for candidate in greedies
        if "mean-best-3" not in candidate.metric
    ]
    with_words = [
        MetricCandidate(
            name=f"ranks: {label} + {soft.name} + {hard.name}",
            why="what is said, how it is meant, and what people say in its place",
            family="sum",
            sum_of=(rater.name, soft.name, hard.name),
        )
        for label, rater in (("rater", REPLY), ("rater, three turns", REPLY_TO_THREE))
        for soft in greedies
        for hard in bleus
        if soft.kind == reference_kinds.ONE and soft.mode == hard.mode and "agg=best" in soft.metric
        if hard.kind == BEST and hard.metric.endswith("bp=none")
    ]
    return (GREEDY_GOLD, REPLY, REPLY_TO_THREE, *matching, *sums, *triples, *with_words, *blends())


def blends() -> tuple[MetricCandidate, ...]:
    """Return the blends: they score a single reply as the sums of ranks score a set.

    A blend has two parts, each on the scale of a sample of the log.
    """
    parts = {
        "best": f"upsilon-greedy;agg=best;{_GREEDY_PART}",
        "mean-best-3 and gold": f"upsilon-greedy;agg=mean-best-3;keep-gold=yes;{_GREEDY_PART}",
    }
    return tuple(
        MetricCandidate(
            name=f"blend: {label} + υ-greedy, {_mode_in_words(mode)}, one, {name}{', k=50' * (k == 50)}",
            why="needs no other replies to be ranked among",
            family="sum",
            metric=f"ruber:referenced={part},unreferenced={rater},vectors={VECTORS}",
            kind=reference_kinds.ONE,
            mode=mode,
            k=k,
        )
        for label, rater in (("rater", "rater"), ("rater, three turns", "rater;turns=3"))
        for mode, k in ((EMBEDDING, 15), (WORDS, 15), (WORDS, 50))
        for name, part in parts.items()
    )


class Trial:
    """Candidates computed with one index and one rater; each pool and each line is computed at its first use."""

    def __init__(
        self,
        chain: Chain,
        sets: Sequence[ProofSet],
        *,
        index: str | None = None,
        rater: Rater | None = None,
        scale_index: str | None = None,
    ) -> None:
        self.chain, self.sets = chain, tuple(sets)
        self.index = index or chain.main_index()
        self.scale_index = scale_index or self.index  # its log sets what is 0 and 1 of the parts of a blend
        self.rater = rater or chain.rater()
        self._vectors = str(chain.vectors_folder(chain.vectors()))
        self._pools = dict[tuple[str, Mode], reference_kinds.Pool]()
        self._lines = dict[MetricCandidate, Line]()

    def pool(self, rated_set: ProofSet, mode: Mode = EMBEDDING) -> reference_kinds.Pool:
        """Return the references for a set, retrieved in this mode."""
        key = (rated_set.name, mode)
        if key not in self._pools:
            self._pools[key] = self.chain.pool(rated_set, self.index, self.rater, mode=mode)
        return self._pools[key]

    def line(
        self,
        candidate: MetricCandidate,
        candidates: Mapping[str, MetricCandidate],
        *,
        drop: reference_kinds.Drop = reference_kinds.Drop.EQUAL,
    ) -> Line:
        """Return the scores of a candidate; `candidates` has the summands of sums by name."""
        if drop is not reference_kinds.Drop.EQUAL:
            return self._compute_line(candidate, candidates, drop)
        if candidate not in self._lines:
            self._lines[candidate] = self._compute_line(candidate, candidates, drop)
        return self._lines[candidate]

    def _compute_line(
        self, candidate: MetricCandidate, candidates: Mapping[str, MetricCandidate], drop: reference_kinds.Drop
    ) -> Line:
        if candidate.sum_of:
            parts = [self.line(candidates[name], candidates, drop=drop) for name in candidate.sum_of]
            if candidate.family == "judge":
                return even_line(self.sets, parts, candidate.name, candidate.why)
            return reference_kinds.sum_of_ranks(parts, candidate.name, candidate.why)
        metric = self._bind(candidate, build(candidate.metric.replace(VECTORS, self._vectors)))
        seeds = self.chain.settings.seeds if candidate.kind in reference_kinds.BY_CHANCE else 1
        return reference_kinds.line_of(
            candidate.name,
            self.sets,
            metric,
            lambda rated_set, seed: self.extras(candidate, rated_set, seed),
            seeds=seeds,
            drop=drop,
            about=f"{candidate.metric.replace(VECTORS, 'proof')} on {candidate.kind}",
        )

    def _bind(self, candidate: MetricCandidate, metric: Metric) -> Metric:
        if not isinstance(metric, Ruber):
            return self.chain.bind_rater(metric, self.rater)
        augmenting = AugmentSettings(
            k=candidate.k,
            mode=candidate.mode,
            weights="one" if candidate.kind == reference_kinds.ONE else "rated",
            parrot="rated" if candidate.parrot else "off",
        )
        return self.chain.bind_blend(metric, self.scale_index, self.rater, augmenting)

    def extras(self, candidate: MetricCandidate, rated_set: ProofSet, seed: int = 0) -> reference_kinds.Extras | None:
        """Return the further references of a candidate."""
        if candidate.kind == "gold":
            return None
        pool = self.pool(rated_set, candidate.mode)
        if candidate.kind == BEST:
            return pool.best(candidate.k, 100)
        return pool.extras(candidate.kind, k=candidate.k, parrot=candidate.parrot, seed=seed)

    def controls(self, candidate: MetricCandidate, kinds: Sequence[str]) -> list[MetricCandidate]:
        """Return the same metric on other kinds of references."""
        return [replace(candidate, name=f"… {kind}", kind=kind, why="control") for kind in kinds]
