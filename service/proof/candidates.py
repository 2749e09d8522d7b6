"""What is tried as a metric: a list that is written down before anything is scored, each with the reason to try it.

A candidate says which metric, on which further references; or it is a sum of the ranks of others. `Trial` computes
them, from one index and one rater, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from core.errors import Usage
from indexer.queries import Mode, SearchSettings
from metrics.base import Metric
from metrics.ruber import Ruber
from metrics.specification import build
from rater.rate import Rater
from service.augment import AugmentSettings
from service.proof.chain import Chain
from service.proof.figures import Line
from service.proof.references import BY_CHANCE, ONE, RATED, Drop, Extras, Pool, line_of, ranks_together
from service.proof.sets import ProofSet

BEST: Final = "best"  # of a hundred retrieved, the k that the rater thinks best, each worth 1
VECTORS: Final = "{vectors}"  # stands for the folder of the proof's word vectors
GREEDY: Final = f"weighting=sif,vectors={VECTORS},measure=f"
_GREEDY_PART: Final = "weighting=sif;measure=f"
EMBEDDING: Final[Mode] = "embedding-utterance"
WORDS: Final[Mode] = "bm25-utterance"
Family = Literal["bleu", "greedy", "rater", "sum", "other"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A metric on a kind of references, or the sum of the ranks of several candidates."""

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

    def as_json(self) -> dict[str, Any]:
        """As the list is published."""
        return {key: value for key, value in asdict(self).items() if value not in ("", ())}


def _bleu(penalty: str, kind: str, mode: Mode) -> Candidate:
    by = {"closest": "as published", "none": "many lengths switch a penalty off anyway", "gold": "length by the gold"}
    return Candidate(
        name=f"υBLEU, {_short(mode)}, {kind}, {penalty}",
        why=by[penalty],
        family="bleu",
        metric=f"upsilon-bleu:bp={penalty}",
        kind=kind,
        mode=mode,
    )


def _greedy(aggregate: str, keep_gold: bool, kind: str, mode: Mode) -> Candidate:
    keep = ",keep-gold=yes" if keep_gold else ""
    return Candidate(
        name=f"υ-greedy, {_short(mode)}, {kind}, {aggregate}{' and gold' if keep_gold else ''}",
        why="soft matches, rare words weighted up" + ("; the gold stays in the sum" if keep_gold else ""),
        family="greedy",
        metric=f"upsilon-greedy:agg={aggregate}{keep},{GREEDY}",
        kind=kind,
        mode=mode,
    )


def _greedy_best(measure: str, k: int) -> Candidate:
    """Matched with the one that fits best, of many, with another look at who has to match whom."""
    why = {"f": "more to match with", "mean": "as published", "precision": "a reply need not say all of a reference"}
    return Candidate(
        name=f"υ-greedy, words, one, best, {measure}, k={k}",
        why=why[measure],
        family="greedy",
        metric=f"upsilon-greedy:agg=best,{GREEDY.replace('measure=f', f'measure={measure}')}",
        kind=ONE,
        mode=WORDS,
        k=k,
    )


def _short(mode: Mode) -> str:
    return "vectors" if mode == EMBEDDING else "words"


GREEDY_GOLD: Final = Candidate(
    name="greedy, gold",
    why="soft matches with the gold alone",
    family="greedy",
    metric=f"upsilon-greedy:{GREEDY}",
)
REPLY: Final = Candidate(
    name="rater on the reply", why="needs no matching words", family="rater", metric="rater:target=reply"
)
REPLY_TO_THREE: Final = Candidate(
    name="rater on the reply, three turns",
    why="what was said before the utterance counts too",
    family="rater",
    metric="rater:target=reply,turns=3",
)


GREEDY_BY_WORDS: Final = _greedy_best("f", 50)
RECOMMENDED: Final = Candidate(
    name="blend: rater, three turns + υ-greedy, words, one, best, k=50",
    why="needs no other replies to be ranked among",
    family="sum",
    metric=f"ruber:referenced=upsilon-greedy;agg=best;{_GREEDY_PART},unreferenced=rater;turns=3,vectors={VECTORS}",
    kind=ONE,
    mode=WORDS,
    k=50,
)


def listed() -> tuple[Candidate, ...]:
    """All of them, in the order in which they were thought of; those without sums first."""
    kinds, modes = (ONE, RATED, BEST), (EMBEDDING, WORDS)
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
        Candidate(
            name=f"ranks: {judged} + {one.name}",
            why="what the rater says and what is matched are complementary",
            family="sum",
            sum_of=(rater.name, one.name),
        )
        for judged, rater in (("rater", REPLY), ("rater, three turns", REPLY_TO_THREE))
        for one in matching
        if one.family == "greedy" or one.metric.endswith("bp=none")
    ]
    triples = [
        Candidate(
            name=f"ranks: rater + greedy, gold + {one.name}",
            why="the gold counts as much as everything retrieved",
            family="sum",
            sum_of=(REPLY.name, GREEDY_GOLD.name, one.name),
        )
        for one in greedies
        if "mean-best-3" not in one.metric
    ]
    with_words = [
        Candidate(
            name=f"ranks: {judged} + {soft.name} + {hard.name}",
            why="what is said, how it is meant, and what people say in its place",
            family="sum",
            sum_of=(rater.name, soft.name, hard.name),
        )
        for judged, rater in (("rater", REPLY), ("rater, three turns", REPLY_TO_THREE))
        for soft in greedies
        for hard in bleus
        if soft.kind == ONE and soft.mode == hard.mode and "agg=best" in soft.metric
        if hard.kind == BEST and hard.metric.endswith("bp=none")
    ]
    return (GREEDY_GOLD, REPLY, REPLY_TO_THREE, *matching, *sums, *triples, *with_words, *blends())


def blends() -> tuple[Candidate, ...]:
    """What scores a single reply as the sums of ranks score a set: two parts, on the scale of a sample of the log."""
    parts = {
        "best": f"upsilon-greedy;agg=best;{_GREEDY_PART}",
        "mean-best-3 and gold": f"upsilon-greedy;agg=mean-best-3;keep-gold=yes;{_GREEDY_PART}",
    }
    return tuple(
        Candidate(
            name=f"blend: {judged} + υ-greedy, {_short(mode)}, one, {name}{', k=50' * (k == 50)}",
            why="needs no other replies to be ranked among",
            family="sum",
            metric=f"ruber:referenced={part},unreferenced={rater},vectors={VECTORS}",
            kind=ONE,
            mode=mode,
            k=k,
        )
        for judged, rater in (("rater", "rater"), ("rater, three turns", "rater;turns=3"))
        for mode, k in ((EMBEDDING, 15), (WORDS, 15), (WORDS, 50))
        for name, part in parts.items()
    )


class Trial:
    """Candidates computed with one index and one rater; pools and lines are made when they are first asked for."""

    def __init__(
        self,
        chain: Chain,
        sets: Sequence[ProofSet],
        *,
        index: str | None = None,
        rater: Rater | None = None,
        sample: str | None = None,
    ) -> None:
        self.chain, self.sets = chain, tuple(sets)
        self.index = index or chain.main_index()
        self.sample = sample or self.index  # whose log says what is 0 and 1 of the parts of a blend
        self.rater = rater or chain.rater()
        self._vectors = str(chain.vectors_folder(chain.vectors()))
        self._pools = dict[tuple[str, Mode], Pool]()
        self._lines = dict[Candidate, Line]()

    def pool(self, one: ProofSet, mode: Mode = EMBEDDING) -> Pool:
        """The references for a set, found in this way."""
        key = (one.name, mode)
        if key not in self._pools:
            self._pools[key] = self.chain.pool(one, self.index, self.rater, mode=mode)
        return self._pools[key]

    def line(self, candidate: Candidate, known: Mapping[str, Candidate], *, drop: Drop = Drop.EQUAL) -> Line:
        """The scores of one; `known` has those that sums are made of, by name."""
        if drop is not Drop.EQUAL:
            return self._made(candidate, known, drop)
        if candidate not in self._lines:
            self._lines[candidate] = self._made(candidate, known, drop)
        return self._lines[candidate]

    def _made(self, candidate: Candidate, known: Mapping[str, Candidate], drop: Drop) -> Line:
        if candidate.sum_of:
            parts = [self.line(known[name], known, drop=drop) for name in candidate.sum_of]
            return ranks_together(parts, candidate.name, candidate.why)
        metric = self._bound(candidate, build(candidate.metric.replace(VECTORS, self._vectors)))
        seeds = self.chain.settings.seeds if candidate.kind in BY_CHANCE else 1
        return line_of(
            candidate.name,
            self.sets,
            metric,
            lambda one, seed: self.extras(candidate, one, seed),
            seeds=seeds,
            drop=drop,
            about=f"{candidate.metric.replace(VECTORS, 'proof')} on {candidate.kind}",
        )

    def _bound(self, candidate: Candidate, metric: Metric) -> Metric:
        if not isinstance(metric, Ruber):
            return self.chain.asking(metric, self.rater)
        augmenting = AugmentSettings(
            search=SearchSettings(k=candidate.k, mode=candidate.mode),
            weights="one" if candidate.kind == ONE else "rated",
            parrot="rated" if candidate.parrot else "off",
        )
        return self.chain.blended(metric, self.sample, self.rater, augmenting)

    def extras(self, candidate: Candidate, one: ProofSet, seed: int = 0) -> Extras | None:
        """The further references of a candidate."""
        if candidate.kind == "gold":
            return None
        pool = self.pool(one, candidate.mode)
        if candidate.kind == BEST:
            return pool.best(candidate.k, 100)
        return pool.extras(candidate.kind, k=candidate.k, parrot=candidate.parrot, seed=seed)

    def controls(self, candidate: Candidate, kinds: Sequence[str]) -> list[Candidate]:
        """The same metric on other kinds of references."""
        return [replace(candidate, name=f"… {kind}", kind=kind, why="control") for kind in kinds]
