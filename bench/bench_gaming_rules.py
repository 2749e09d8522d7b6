"""Rules that could keep a constant from earning υBLEU: what each leaves to it, and what it costs in agreement.

    python bench/bench_gaming_rules.py --home HOME --proof HOME --data FOLDER

Every rule multiplies the score of a reply. A constant is searched anew against each rule, with several seeds, on the
demo items; agreement with people is that of υBLEU with 15 retrieved and rated references on the rated sets.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from bench_bleu_defaults import GROUPS, K
from bench_gaming import BASE, Demo
from common import write_result

from refaug.agreement.exploits import CONSTANTS, salad_of
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.core.text.tokenizers import get_tokenizer
from refaug.extras.reproduction.figures.correlations import Line, correlate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import ProofSettings
from refaug.extras.reproduction.material.rated_sets import ProofSet, read_sets
from refaug.extras.reproduction.material.reference_kinds import RATED, scores_of
from refaug.metrics.base import Floats, Level, References
from refaug.metrics.specification import build
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.scoring.cases import references_for
from refaug.scoring.items import read_items
from refaug.scoring.metric_setup.constant_search import edit

RULES: Final = {
    "none": "the score as it is",
    "pair": "nothing without a pair of words in common with a reference",
    "pair, half": "half without such a pair",
    "long": "exp(1 - c/r) for a reply of c tokens above the longest reference, of r",
    "marks, half": "half where more than three in ten tokens are marks",
    "share of idf": "the root of the share of the reply's idf that is matched",
    "content": "nothing without a content word in common with a reference",
    "content, half": "half without such a word",
}
_METRIC: Final = "upsilon-bleu"
_CONTENT_IDF: Final = 2.0  # a word in fewer than about one in seven items' references
_HALF: Final = 0.5
_MARKS: Final = 0.3
_STEPS: Final = 2_000
_SEARCHED: Final = 50  # items, every second one; the others judge
_VOCABULARY: Final = 300
_KINDS: Final = ("spearman", PARTIAL)
_PACKAGES: Final = ("numpy", "torch", "faiss-cpu", "numba")
_TOKENIZER: Final = get_tokenizer("word")


@dataclass(frozen=True, kw_only=True)
class WordTables:
    """The words, pairs and lengths of each item's references of positive weight, and how rare words are."""

    words: Sequence[frozenset[str]]
    pairs: Sequence[frozenset[tuple[str, str]]]
    longest: Sequence[int]
    counts: Mapping[str, int]  # items in whose references a word stands

    @classmethod
    def of(cls, references: Sequence[References]) -> WordTables:
        """Read the references of all items."""
        texts = [_TOKENIZER.tokenize_batch(list(each.texts)) for each in references]
        positive = [
            [tokens for tokens, weight in zip(listed, each.weights, strict=True) if weight > 0]
            for listed, each in zip(texts, references, strict=True)
        ]
        return cls(
            words=[frozenset(word for tokens in listed for word in tokens) for listed in positive],
            pairs=[frozenset(pair for tokens in listed for pair in _pairs(tokens)) for listed in positive],
            longest=[max(map(len, listed), default=1) for listed in positive],
            counts=Counter(word for listed in texts for word in {word for tokens in listed for word in tokens}),
        )

    def factors(self, reply: str, place: int) -> dict[str, float]:
        """Return what each rule makes of a reply to an item."""
        tokens = _TOKENIZER.tokenize(reply)
        matched = [word for word in tokens if word in self.words[place]]
        has_pair = len(tokens) < 2 or any(pair in self.pairs[place] for pair in _pairs(tokens))
        has_content = any(word.isalnum() and self._idf(word) > _CONTENT_IDF for word in matched)
        marks = sum(not word.isalnum() for word in tokens)
        total = sum(map(self._idf, tokens))
        return {
            "none": 1.0,
            "pair": float(has_pair),
            "pair, half": 1.0 if has_pair else _HALF,
            "long": math.exp(min(0.0, 1 - len(tokens) / self.longest[place])),
            "marks, half": _HALF if marks > _MARKS * len(tokens) else 1.0,
            "share of idf": math.sqrt(sum(map(self._idf, matched)) / total) if total > 0 else 0.0,
            "content": float(has_content),
            "content, half": 1.0 if has_content else _HALF,
        }

    def _idf(self, word: str) -> float:
        return math.log((len(self.words) + 1) / (self.counts.get(word, 0) + 1))


def _pairs(tokens: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(tokens))


# ── what a constant gets ──────────────────────────────────────────────────────────────────────────────────────────────


class ConstantSearch:
    """Scores replies to the demo items under the rules, and searches constants."""

    def __init__(self, items: Sequence[Item]) -> None:
        metric = build(_METRIC)
        chosen = [references_for(metric, item.references, item.turns) for item in items]
        usable = [place for place, references in enumerate(chosen) if isinstance(references, References)]
        self.items = [items[place] for place in usable]
        references = [each for each in chosen if isinstance(each, References)]
        self.tables = WordTables.of(references)
        self._metric = metric.for_set(references)
        self._prepared = self._metric.prepare(references)
        self.everywhere = np.arange(len(self.items))
        self.seen = self.everywhere[::2][:_SEARCHED]

    def scores(self, replies: Sequence[str], places: Any, rule: str) -> Floats:
        """Return the score of each reply to the item at its place."""
        rows = self._metric.statistics(replies, self._prepared, np.arange(len(replies)), np.asarray(places))
        factors = [self.tables.factors(reply, int(place))[rule] for reply, place in zip(replies, places, strict=True)]
        return np.nan_to_num(self._metric.values(rows, Level.REPLY)) * np.array(factors)

    def search(self, rule: str, seed: int) -> str:
        """Edit one reply token by token, and return the best."""
        vocabulary = [word for word, _ in Counter(self.tables.counts).most_common(_VOCABULARY)]
        generator, tokens, best = random.Random(seed), list[str](), -1.0
        for _ in range(_STEPS):
            edited = edit(tokens, vocabulary, generator)
            mean = float(self.scores([" ".join(edited)] * len(self.seen), self.seen, rule).mean())
            if mean >= best:
                tokens, best = edited, mean
        return " ".join(tokens)

    def figures(self, rule: str, seeds: Sequence[int]) -> dict[str, Any]:
        """Return the shares of the human-like mean that constants have, and the constant that has the most."""
        base = self.scores([item.replies[BASE] for item in self.items], self.everywhere, rule)
        hidden = np.setdiff1d(self.everywhere, self.seen)
        searched = {
            reply: float(self.scores([reply] * len(hidden), hidden, rule).mean() / base[hidden].mean())
            for reply in (self.search(rule, seed) for seed in seeds)
        }
        constants = np.stack([self.scores([text] * len(self.items), self.everywhere, rule) for text in CONSTANTS])
        salad = [salad_of(self.items, _TOKENIZER)] * len(self.items)
        best = max(searched, key=lambda reply: searched[reply])
        return {
            "human_like": float(base.mean()),
            "searched": searched[best],
            "reply": best,
            "fixed": float(constants.mean(axis=1).max() / base.mean()),
            "best_of_constants": float(constants.max(axis=0).mean() / base.mean()),
            "salad": float(self.scores(salad, self.everywhere, rule).mean() / base.mean()),
        }


# ── what people say ───────────────────────────────────────────────────────────────────────────────────────────────────


def agreement(chain: Chain) -> dict[str, Any]:
    """Correlate υBLEU under every rule with people, and compare each with the score as it is."""
    names = [name for group in GROUPS.values() for name in group]
    sets = [rated_set.with_first_gold() for rated_set in read_sets(chain.settings.data, names)]
    tables = {rated_set.name: _scores_by_rule(chain, rated_set) for rated_set in sets}
    lines = [Line(name=rule, scores={name: tables[name][rule][None] for name in tables}) for rule in RULES]
    correlations = correlate(sets, lines, kinds=_KINDS, draws=chain.settings.draws, seed=chain.settings.seed)
    return {
        rule: {
            kind: {
                scope: {
                    "value": correlations.estimate(rule, kind, scope).as_json(),
                    "less_none": correlations.difference(rule, "none", kind, scope).as_json(),
                }
                for scope in correlations.table_scopes
            }
            for kind in _KINDS
        }
        for rule in RULES
    }


def _scores_by_rule(chain: Chain, rated_set: ProofSet) -> dict[str, Floats]:
    metric, pool = build(_METRIC), chain.pool(rated_set, chain.main_index(), chain.rater())
    extras = pool.extras(RATED, k=K, parrot=False)
    references = [
        references_for(metric, (*item.references, *further), item.turns)
        for item, further in zip(rated_set.items, extras, strict=True)
    ]
    tables = WordTables.of([each if isinstance(each, References) else References((), ()) for each in references])
    factors = [
        tables.factors(reply, place) for reply, place in zip(rated_set.replies, rated_set.item.tolist(), strict=True)
    ]
    scores = scores_of(rated_set, metric, extras)
    return {rule: scores * np.array([row[rule] for row in factors]) for rule in RULES}


def main() -> None:
    """Measure both, and write bench/results/gaming_rules.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="where the demo's artefacts are kept")
    parser.add_argument(
        "--proof", type=Path, required=True, help="where those of `refaug agreement reproduce` are kept"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with logs/ and human/")
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=2, help="of the search")
    options = parser.parse_args()
    demo = Demo(options.home)
    demo.make()
    items = [item for item in read_items(demo.weighted("off")) if isinstance(item, Item)]
    search = ConstantSearch(items)
    shares = {rule: search.figures(rule, range(1, options.seeds + 1)) for rule in RULES}
    chain = Chain(Settings(home=options.proof), ProofSettings(data=options.data, draws=options.draws), Silent())
    figures = {"rules": RULES, "constants": shares, "agreement": agreement(chain), "draws": options.draws}
    print(write_result("gaming_rules", figures, _PACKAGES))


if __name__ == "__main__":
    main()
