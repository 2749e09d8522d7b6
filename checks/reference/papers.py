"""docs/reference/papers.md: figures of the papers, from papers.json, beside what this repository measured.

Figures of refaug are read from the results in docs/results and bench/results, and sizes from the presets; a figure that
no result has is said to be not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.report.report import cell, short
from refaug.indexer.vectors.cooccurrence import CooccurrenceSettings
from refaug.indexer.vectors.glove import GloveSettings
from refaug.metrics.specification import build
from refaug.rater.adem.pretraining.dialogues import WindowSettings
from refaug.rater.adem.scorer.settings import Protocol, ScorerSettings
from refaug.rater.adem.vhred.sizes import PRESETS as VHRED_PRESETS
from refaug.rater.nn.build import PRESETS as RATER_PRESETS
from refaug.rater.nn.sizes import RaterConfig
from refaug.scoring.settings import AugmentSettings

_ROOT: Final = Path(__file__).resolve().parents[2]
_PAPERS: Final = Path(__file__).with_name("papers.json")
_NOT_RUN: Final = "not run"
_HEAD: Final = """# Figures of the papers, beside ours

Generated from `checks/reference/papers.json` and the [results](../results/README.md) by `make docs`; a test compares
it with them. Differences have reasons, which stand with each table; no figure here shows that one program is better
than another. Intervals are of 95 %, as the results have them.
"""

Rows = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table of a paper, with what stands beside it here and why that differs."""

    key: str  # of papers.json
    title: str
    why: str
    ours: Callable[[str], Sequence[str]] = lambda _name: ()  # cells of a row, by its name
    columns: tuple[str, ...] = ()  # of ours


@cache
def _result(path: str) -> Any:
    file = _ROOT / path
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def figure_at(path: str, *keys: str) -> str:
    """Return a figure of a result as tables show it: with its interval, or that it was not run."""
    figure = _result(path)
    for key in keys:
        if not isinstance(figure, Mapping) or key not in figure:
            return _NOT_RUN
        figure = figure[key]
    if isinstance(figure, Mapping):
        return cell(IntervalEstimate(**{end: figure.get(end) for end in ("value", "low", "high", "why")}))
    return short(figure) if isinstance(figure, float) else str(figure)


def _lines_of(table: PaperTable, paper: Mapping[str, Any]) -> str:
    rows: Rows = paper["rows"]
    published = list(dict.fromkeys(column for row in rows.values() for column in row))
    head = ["", *(f"published, {column}" if column != "published" else column for column in published)]
    lines = [[*head, *table.columns]]
    for name, row in rows.items():
        numbers = [_number(row[column]) if column in row else "–" for column in published]
        lines.append([name, *numbers, *table.ours(name)])
    cells = [f"| {' | '.join(line)} |" for line in lines]
    cells.insert(1, f"|{'---|' * len(lines[0])}")
    return "\n".join([f"## {table.title}", "", f"{paper['cited']}.", table.why, "", *cells, ""])


def _number(number: float | str) -> str:
    if isinstance(number, str):
        return number
    if float(number).is_integer():
        return f"{int(number):,}"
    return short(number) if round(number, 3) == number else f"{number:g}".replace("0.", ".", 1)


def papers_page() -> str:
    """Return the page."""
    papers = json.loads(_PAPERS.read_text("utf-8"))
    return "\n".join([_HEAD, *(_lines_of(each, papers[each.key]) for each in TABLES)])


# ── What stands beside each table ─────────────────────────────────────────────────────────────────────────────────────

_ADEM: Final = "docs/results/adem-base.json"
_NETWORKS: Final = "docs/results/networks.json"
_KINDS: Final = ("spearman", "pearson")
_ADEM_LINES: Final = {
    "ADEM before training": ("with_references", "figures", "ADEM, before training"),
    "C-ADEM": ("in_set", "folds", "figures", "C-ADEM, pre-trained"),
    "R-ADEM": ("in_set", "folds", "figures", "R-ADEM, pre-trained"),
    "ADEM": ("in_set", "folds", "figures", "ADEM, pre-trained"),
}


_OVERLAP_LINES: Final = {"BLEU-2": "BLEU-2, gold", "BLEU-4": "BLEU-4, gold, best setting"}
_SYSTEMS: Final = {"Dual Encoder": "dualencoder_train", "HRED": "hredf", "human": "human"}  # of dailydialog_gupta


def _overlap(name: str) -> list[str]:
    line = _OVERLAP_LINES.get(name, name)
    return [figure_at("docs/results/metrics.json", "main", "figures", line, kind, "mean") for kind in _KINDS]


def _adem_replies(name: str) -> list[str]:
    if "tweet2vec" in name:
        return ["–", "–"]
    if name not in _ADEM_LINES:
        return _overlap(name)
    return [figure_at(_ADEM, *_ADEM_LINES[name], kind, "mean") for kind in _KINDS]


def _adem_left_out(name: str) -> list[str]:
    if name == "mean":
        keys = ("in_set", "own_system_left_out", "figures", "ADEM, own system left out")
        return ["–", *(figure_at(_ADEM, *keys, kind, "mean") for kind in _KINDS)]
    if name not in _SYSTEMS:
        return ["–", "–", "–"]
    keys = ("in_set", "systems", "dailydialog_gupta", _SYSTEMS[name])
    return [*(figure_at(_ADEM, *keys, rows) for rows in ("all", "removed")), "–"]


def _adem_share(name: str) -> list[str]:
    share = name.partition(" ")[0]
    return [figure_at(_ADEM, "in_set", "curve", "figures", f"{share}% of the contexts", kind) for kind in _KINDS]


def _adem_time(_name: str) -> list[str]:
    return [figure_at("bench/results/adem.json", "seconds_to_score_the_triples", "wall")]


def _hybrid_agreement(name: str) -> list[str]:
    report = _result("docs/results/hybrid.json").get("reports", {}).get("all bots")
    if report is None or name.endswith("empathy"):
        return [_NOT_RUN]
    own = report["sets"]["hybrid" if name == "hybrid metric" else report["against_counts"]["hybrid"]["count"]]
    ends = {end: own["interval"][end] for end in ("low", "high")}
    return [cell(IntervalEstimate(value=own["agreement"]["common"]["pearson"], **ends))]


def _of_network(*figures: str) -> Callable[[str], list[str]]:
    return lambda name: [figure_at(_NETWORKS, "variants", name, "figures", figure) for figure in figures]


def _quality(name: str) -> list[str]:
    if not name.endswith(" EI"):
        return ["–"]
    return [figure_at(_NETWORKS, "differences", f"{name} less {name.removesuffix(' EI')}", "hybrid")]


Sizes = Mapping[str, float | str]


def _of_presets(*columns: Sizes) -> Callable[[str], list[str]]:
    return lambda name: [_number(column.get(name, "–")) for column in columns]


def _rater_sizes(name: str) -> Sizes:
    sizes = asdict(RATER_PRESETS[name])
    return {
        "embedding": sizes["embedding"],
        "Bi-GRU, each way": sizes["hidden"],
        "width of the layers on top": sizes["width"],
        "layers on top": RaterConfig.layers,
        "pieces": sizes["pieces"],
        "batch": sizes["batch"],
        "epochs": sizes["epochs"],
        "learning rate": sizes["learning_rate"],
    }


def _network_sizes(name: str) -> Sizes:
    sizes = VHRED_PRESETS[name]
    return {
        "embedding": sizes.embedding,
        "pieces read by, each way": sizes.utterance,
        "pieces read by": sizes.utterance,
        "turns read by": sizes.context,
        "latent": sizes.latent,
        "decoder": sizes.decoder,
        "pieces": sizes.pieces,
        "batch": sizes.batch,
        "batches until the KL divergence counts in full": sizes.kl_steps,
        "words dropped in decoding": WindowSettings.word_drop,
        "learning rate": sizes.learning_rate,
        "norm of the gradient at most": sizes.clip_norm,
    }


def _scorer_sizes(protocol: Protocol) -> Sizes:
    settings = ScorerSettings(protocol=protocol)
    return {
        "components": settings.components,
        "weight of the norms, γ": settings.penalty,
        "learning rate": settings.learning_rate,
        "batch": settings.batch,
        "epochs at most": settings.epochs,
    }


def _method_settings() -> Sizes:
    return {
        "references retrieved": AugmentSettings.k,
        "order of n-grams at most": build("upsilon-bleu").settings["n"],
        "share of the responses' likeness, α": AugmentSettings.alpha,
        "likeness of any response, ε": AugmentSettings.epsilon,
        "GloVe: window": CooccurrenceSettings.window,
        "GloVe: x_max": GloveSettings.x_max,
        "GloVe: α": GloveSettings.alpha,
    }


def _compared_sizes() -> Sizes:
    """Return the sizes of the networks that were compared, as their result says."""
    setting = _result(_NETWORKS).get("setting", {})
    return {**_network_sizes(setting.get("preset", "small")), **setting.get("sizes", {})}


def _small_networks() -> str:
    """Return why figures of the networks differ, with what theirs were learned from."""
    compared = _result(_NETWORKS)
    setting = compared.get("setting", {})
    seeds = [len(variant["seeds"]) for variant in compared.get("variants", {}).values() if variant["seeds"]]
    few, many = min(seeds, default=0), max(seeds, default=0)
    return (
        f"Ours are of the preset `{setting.get('preset', 'small')}` and have learned for {setting.get('batches', 0):,} "
        f"batches, from {compared.get('fraction', 1):.0%} of one log of everyday dialogues (seeds: "
        f"{few if few == many else f'{few} to {many}'}); by pieces in place of words, with VADER in place of DeepMoji "
        "and a small encoder in place of InferSent; the bound has the whole divergence. The two corpora of the paper "
        "are films and Reddit. Input only: what the teachers say of a turn is an input of the context there, and here "
        "what the heads predict of it; we have it of VHRED alone, as the ablations."
    )


_NEVER_RELEASED: Final = "Nothing stands beside it: the rated replies were never released."
_NOBODY_HAS_RATED: Final = "Nothing stands beside it: no person has rated our bots (`refaug studies` would ask them)."

TABLES: Final = (
    PaperTable(
        key="lowe17-replies",
        title="ADEM: agreement with people, reply by reply",
        why="The ratings were never released; ours are six other sets, the mean of two groups, five folds by context "
        "(before training: of groups left out), and of BLEU-4 at its best setting. As released, the code scores with "
        "an encoder whose weights were drawn ([ADEM](../adem.md)). Nothing here reads characters as tweet2vec does.",
        columns=("here, Spearman", "here, Pearson"),
        ours=_adem_replies,
    ),
    PaperTable(
        key="lowe17-left-out",
        title="ADEM: systems that it was not fitted to",
        why="Both fall; ours from less. Of the systems, ours are those of the same names in dailydialog_gupta, with a "
        "hundred replies each; the mean is over all systems of four sets.",
        columns=("here, all, Spearman", "here, removed, Spearman", "here, removed, Pearson"),
        ours=_adem_left_out,
    ),
    PaperTable(
        key="lowe17-share",
        title="ADEM: with less training data",
        why="Ours is dailydialog_zhao alone: 799 replies of 100 contexts, where the paper had 2,872 of 718.",
        columns=("here, Spearman", "here, Pearson"),
        ours=_adem_share,
    ),
    PaperTable(
        key="lowe17-liu16",
        title="ADEM: overlap on another set",
        why="Ours are the six sets again, not that of Liu et al., on which no p is below .17.",
        columns=("here, Spearman", "here, Pearson"),
        ours=_overlap,
    ),
    PaperTable(
        key="lowe17-time",
        title="ADEM: time to score the test set",
        why="Another machine, and a smaller network (`base`); each text is read once.",
        columns=("here, seconds",),
        ours=_adem_time,
    ),
    PaperTable(
        key="lowe17-network",
        title="The network that ADEM's encoder is from",
        why="The default is what a CPU trains in an hour; `--preset paper` has the published sizes.",
        columns=("`base`, the default", "`paper`"),
        ours=_of_presets(_network_sizes("base"), _network_sizes("paper")),
    ),
    PaperTable(
        key="lowe17-scorer",
        title="ADEM: how it is fitted",
        why="The defaults are those of the paper, and `--protocol released` those of the code; ours stops before the "
        "last epoch where the error on validation has not fallen for twenty.",
        columns=("`--protocol paper`, the default", "`--protocol released`"),
        ours=_of_presets(_scorer_sizes("paper"), _scorer_sizes("released")),
    ),
    PaperTable(
        key="lowe19-groups",
        title="ADEM: replies written to mislead it",
        why="The replies were not released; `--stress` of `refaug agreement` makes the seven groups anew of the golds "
        "of a file, and no result has them ([what networks see](../internals/networks.md#what-they-see)).",
        columns=("here",),
        ours=lambda _name: [_NOT_RUN],
    ),
    PaperTable(
        key="ghandeharioun19-agreement",
        title="The hybrid metric: agreement with people over bots",
        why="Other conversations with eleven other bots, with stand-ins for DeepMoji and InferSent, and an intercept "
        "that no rating of rivals enters; the interval is over bots and conversations. The last row has here the "
        "best of three plain counts.",
        columns=("here, Pearson over bots",),
        ours=_hybrid_agreement,
    ),
    PaperTable(
        key="ghandeharioun19-perplexity",
        title="HRED, VHRED and VHCR: perplexity",
        why=_small_networks(),
        columns=("here, a piece",),
        ours=_of_network("perplexity"),
    ),
    PaperTable(
        key="ghandeharioun19-kl",
        title="… KL divergence",
        why="Ours is in nats a turn, and a window of ten turns for the variable of the conversation; the paper does "
        "not say of what its numbers are.",
        columns=("here, a turn", "here, a conversation"),
        ours=_of_network("kl", "kl_conversation"),
    ),
    PaperTable(
        key="ghandeharioun19-coherence",
        title="… coherence by word vectors",
        why="The paper compares replies with references, ours successive utterances of self-play, by the average.",
        columns=("here, average",),
        ours=_of_network("average-coherence"),
    ),
    PaperTable(
        key="ghandeharioun19-overlap",
        title="… self-play conversations that share three or five utterances",
        why="A hundred conversations a bot in both, from nothing, by the same rules. Ours are means over seeds.",
        columns=("here, 3", "here, 5"),
        ours=_of_network("overlap_3", "overlap_5"),
    ),
    PaperTable(
        key="ghandeharioun19-training-overlap",
        title="… self-play conversations with utterances of the training set",
        why="`refaug bots check --log` tells it of any self-play; no result has it. Three in a row the paper never "
        "found.",
        columns=("here",),
        ours=lambda _name: [_NOT_RUN],
    ),
    PaperTable(
        key="ghandeharioun19-quality",
        title="… quality by people, and what heads of emotion and meaning add",
        why="People have not rated our bots. Beside each network with heads stands by how much they change the hybrid "
        "metric of self-play, in points of the ratings that it was fitted to (0 to 100, people and other bots): a "
        "guess, no rating.",
        columns=("here, hybrid metric with less without",),
        ours=_quality,
    ),
    PaperTable(
        key="ghandeharioun19-network",
        title="… sizes",
        why="Ours were chosen so that a training takes half a minute of a core.",
        columns=("here",),
        ours=_of_presets(_compared_sizes()),
    ),
    PaperTable(
        key="tsuta20-rater",
        title="υBLEU: the rater",
        why="The default is what a CPU trains; `--preset paper` has the published sizes.",
        columns=("`base`, the default", "`paper`"),
        ours=_of_presets(_rater_sizes("base"), _rater_sizes("paper")),
    ),
    PaperTable(
        key="tsuta20-settings",
        title="υBLEU: references and word vectors",
        why="The defaults are those of the paper; the preset `tsuta20` retrieves as many as the code.",
        columns=("here, by default",),
        ours=_of_presets(_method_settings()),
    ),
    # What nothing here stands beside
    PaperTable(
        key="lowe17-systems",
        title="ADEM: agreement over systems",
        why="Nothing stands beside it: over four systems, chance alone gives .95 once in twenty.",
    ),
    PaperTable(
        key="lowe17-kappa",
        title="ADEM: agreement of the raters",
        why="Nothing stands beside it: of our sets there are other figures of [agreement](../results/metrics.md).",
    ),
    PaperTable(
        key="lowe17-length",
        title="ADEM: replies of another length than the reference",
        why=_NEVER_RELEASED,
    ),
    PaperTable(key="lowe17-overlap", title="ADEM: good replies that overlap does not see", why=_NEVER_RELEASED),
    PaperTable(
        key="lowe17-examples",
        title="ADEM: twelve replies",
        why="Nothing stands beside it: the network is not to be had. Two versions of the paper print other scores.",
    ),
    PaperTable(key="lowe17-failures", title="ADEM: replies that it gets wrong, and right", why=_NEVER_RELEASED),
    PaperTable(key="ghandeharioun19-answers", title="HRED, VHRED and VHCR: answers of people", why=_NOBODY_HAS_RATED),
    PaperTable(key="ghandeharioun19-ratings", title="… ratings of each bot", why=_NOBODY_HAS_RATED),
    PaperTable(
        key="ghandeharioun19-static", title="… two replies to one context, chosen between", why=_NOBODY_HAS_RATED
    ),
    PaperTable(
        key="ghandeharioun19-sizes",
        title="… sizes of all twelve",
        why="Ours stand above: they are the same for all networks, but for what some lack.",
    ),
)
