"""`reproduce without-gold`: what scores are worth where no gold is known, as in live dialogues.

Golds are dropped from the sets that have them, beside sets that never had any. References are found by the utterance
alone, and rated by it alone; so is the reply. Every line stands beside as many drawn replies of the same lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from refaug.core.errors import BadInput, NotFound
from refaug.evaluation.reproduction.experiments.conditions import GREEDY_BEST, NO_PENALTY, build_soft_match
from refaug.evaluation.reproduction.figures.correlations import Correlations, Line, correlate
from refaug.evaluation.reproduction.material import reference_kinds
from refaug.evaluation.reproduction.material.chain import Chain
from refaug.evaluation.reproduction.material.rated_sets import ProofSet, read_sets
from refaug.evaluation.reproduction.report.report import IN_WORDS, Report, Section, agreement_table, cell, verdict
from refaug.indexer.search.search_settings import Mode
from refaug.metrics.base import Metric
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL

GOLDLESS: Final = ("fed_turn", "conture")  # rated sets of live dialogues, by their names in human/
_KINDS: Final = ("spearman", PARTIAL)
_MODES: Final[Mapping[str, Mode]] = {"vectors": "embedding-utterance", "words": "bm25-utterance"}
_RATERS: Final = {
    "rater on the reply": "rater:refs=none",
    "rater on the reply, three turns": "rater:refs=none,turns=3",
}
_WEIGHED: Final = (reference_kinds.RATED, reference_kinds.SHUFFLED, reference_kinds.ONE)
K: Final = 15
_LENGTH: Final = "length"


def without_gold(chain: Chain, sets: Sequence[ProofSet]) -> Report:
    """Report on scores without golds, on these sets and on those that have none."""
    goldless, gaps = _read_goldless(chain)
    dropped = [*(each.without_golds() for each in sets), *goldless]
    pools = {mode: {each.name: _pool(chain, each, mode) for each in dropped} for mode in _MODES.values()}
    lines = [_length_line(dropped), *_rater_lines(chain, dropped), *_reference_lines(chain, dropped, pools)]
    main = _correlate(chain, dropped, lines)
    weights = _correlate(chain, dropped, list(_weight_lines(chain, dropped, pools)))
    return Report(
        name="without-gold",
        title="Scores without a gold: by the utterance alone",
        summary=[*_claims(main, weights)],
        sections=[
            Section(
                title="Agreement with people",
                text=(
                    "Fair rows of all sets, golds dropped. References: 15 found by the utterance, each of weight one; "
                    "random and matched are as many drawn replies, matched ones of the same lengths.",
                ),
                tables=(agreement_table(main, "Without golds"),),
            ),
            Section(
                title="Weights by the utterance alone",
                text=(
                    "Rows that all lines have a score for: where no reference is rated above 0 there is none. The "
                    "weights are those of a rater that reads an empty text in place of the gold, the same shuffled "
                    "within the item, or one.",
                ),
                tables=(agreement_table(weights, "Weights without golds"),),
            ),
        ],
        notes=[*gaps, *(f"{each.name}: {note}" for each in goldless for note in each.notes)],
        data={
            "goldless": {each.name: {"data": each.data, "replies": len(each.replies)} for each in goldless},
            "main": main.as_json(_KINDS),
            "weights": weights.as_json(_KINDS),
        },
    )


def _read_goldless(chain: Chain) -> tuple[list[ProofSet], list[str]]:
    """Return the sets that have no golds, and which of them are not there."""
    sets, gaps = list[ProofSet](), list[str]()
    for name in GOLDLESS:
        try:
            sets += read_sets(chain.settings.data, [name], needs_references=False)
        except (NotFound, BadInput) as error:
            gaps.append(f"{name} is left out: {chain.public_message(error)}")
    return sets, gaps


def _pool(chain: Chain, rated_set: ProofSet, mode: Mode) -> reference_kinds.Pool:
    chain.progress.stage(f"references for {rated_set.name}, {mode}")
    return chain.pool(rated_set, chain.main_index(), chain.rater(), mode=mode, deep=K, gold="none")


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _length_line(sets: Sequence[ProofSet]) -> Line:
    return Line(name=_LENGTH, scores={each.name: each.lengths[None] for each in sets}, about="tokens of the reply")


def _rater_lines(chain: Chain, sets: Sequence[ProofSet]) -> Iterator[Line]:
    for name, specification in _RATERS.items():
        yield reference_kinds.line_of(name, sets, chain.bind_rater(build(specification)), about=specification)


def _metrics(chain: Chain) -> dict[str, Metric]:
    return {
        "υBLEU": build("upsilon-bleu"),
        NO_PENALTY: build("upsilon-bleu:bp=none"),
        GREEDY_BEST: build_soft_match(chain, agg="best"),
    }


def _reference_lines(
    chain: Chain, sets: Sequence[ProofSet], pools: Mapping[Mode, Mapping[str, reference_kinds.Pool]]
) -> Iterator[Line]:
    for name, metric in _metrics(chain).items():
        for way, mode in _MODES.items():
            for kind in (reference_kinds.ONE, reference_kinds.MATCHED):
                yield _line(chain, f"{name}, {way}, {kind}", sets, metric, pools[mode], kind)
        yield _line(
            chain,
            f"{name}, {reference_kinds.RANDOM}",
            sets,
            metric,
            pools["embedding-utterance"],
            reference_kinds.RANDOM,
        )


def _weight_lines(
    chain: Chain, sets: Sequence[ProofSet], pools: Mapping[Mode, Mapping[str, reference_kinds.Pool]]
) -> Iterator[Line]:
    for name, metric in _metrics(chain).items():
        for kind in _WEIGHED:
            yield _line(chain, f"{name}, {kind}", sets, metric, pools["bm25-utterance"], kind)


def _line(
    chain: Chain,
    name: str,
    sets: Sequence[ProofSet],
    metric: Metric,
    pools: Mapping[str, reference_kinds.Pool],
    kind: str,
) -> Line:
    return reference_kinds.line_of(
        name,
        sets,
        metric,
        lambda rated_set, seed: pools[rated_set.name].extras(kind, k=K, parrot=False, seed=seed),
        seeds=chain.settings.seeds if kind in reference_kinds.BY_CHANCE else 1,
    )


def _correlate(chain: Chain, sets: Sequence[ProofSet], lines: Sequence[Line]) -> Correlations:
    settings = chain.settings
    return correlate(sets, lines, kinds=_KINDS, draws=settings.draws, seed=settings.seed)


# ── in words ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _claims(main: Correlations, weights: Correlations) -> Iterator[str]:
    """Yield what is shown, and what is not, on the mean of the groups of sets and on each group."""
    for claim, correlations, above, below in (
        (
            "Retrieved references beat drawn ones of the same lengths, υBLEU",
            main,
            "υBLEU, words, one",
            "υBLEU, words, matched",
        ),
        (
            "Retrieved references beat drawn ones of the same lengths, υ-greedy",
            main,
            f"{GREEDY_BEST}, words, one",
            f"{GREEDY_BEST}, words, matched",
        ),
        (
            "Rated weights beat weights of one, υBLEU",
            weights,
            f"υBLEU, {reference_kinds.RATED}",
            f"υBLEU, {reference_kinds.ONE}",
        ),
        (
            "Rated weights beat the same ones shuffled, υBLEU",
            weights,
            f"υBLEU, {reference_kinds.RATED}",
            f"υBLEU, {reference_kinds.SHUFFLED}",
        ),
    ):
        yield f"{claim}: " + "; ".join(
            f"{scope} {verdict([correlations.difference(above, below, kind, scope) for kind in _KINDS])}"
            for scope in correlations.table_scopes
        )
    for name in _RATERS:
        yield f"The {name}: " + "; ".join(
            f"{scope} {IN_WORDS['spearman']} {cell(main.estimate(name, 'spearman', scope))}, "
            f"{IN_WORDS[PARTIAL]} {cell(main.estimate(name, PARTIAL, scope))}"
            for scope in main.table_scopes
        )
