"""The catalogue of metrics: what each is, needs and means. It computes nothing, so that it loads at once.

The class named in its entry is made from it and checked settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from refaug.core.errors import Usage
from refaug.metrics import shared_parameters
from refaug.metrics.costs import ENCODED, LINEAR, Cost
from refaug.metrics.metric_info import (
    CorpusScore,
    ForcedParameters,
    MetricInfo,
    Uses,
)
from refaug.metrics.model_catalogue import MODEL_METRICS
from refaug.metrics.packages.package_metrics import metric_of_package
from refaug.metrics.parameters import Choice, Number, Parameter, Text

# The released code has neither, and this variant reproduces its figures.
_TSUTA20 = ForcedParameters(name="variant", value="tsuta20", others={"smooth": "none", "eff": "no"})
_PAPINENI = "Papineni et al. 2002, BLEU; multiple references, clipped counts"
_GALLEY = "Galley et al. 2015, deltaBLEU"
_TSUTA = "Tsuta, Yoshinaga and Toyoda 2020, uBLEU (ACL student research workshop)"


def _bleu(name: str, summary: str, uses: Uses, paper: str, *parameters: Parameter) -> MetricInfo:
    shared = (
        shared_parameters.SMOOTHING,
        *parameters,
        shared_parameters.EFFECTIVE,
        shared_parameters.CASE,
        shared_parameters.TOKENIZER,
    )
    return MetricInfo(
        name=name,
        summary=summary,
        uses=uses,
        parameters=(shared_parameters.ORDER, *shared)
        if shared_parameters.VARIANT not in parameters
        else _with_variant(shared),
        corpus=CorpusScore.SUMS,
        paper=paper,
        made_by="refaug.metrics.words.bleu:Bleu",
        cost=Cost(pair=1.0, again=0.3),
        forced=(_TSUTA20,) if shared_parameters.VARIANT in parameters else (),
    )


def _with_variant(shared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return the parameters in the order of the signature: n, variant, smooth, bp, eff, case, tok."""
    return (
        shared_parameters.ORDER,
        shared_parameters.VARIANT,
        *(parameter for parameter in shared if parameter is not shared_parameters.VARIANT),
    )


def _cosine(name: str, summary: str, paper: str, *parameters: Parameter) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(
            shared_parameters.VECTORS,
            *parameters,
            *shared_parameters.FAMILY,
            shared_parameters.CASE,
            shared_parameters.TOKENIZER,
        ),
        paper=paper,
        made_by="refaug.metrics.embeddings.word_vector_metrics:EmbeddingMetric",
        cost=Cost(product=0.02 if name == "greedy" else 0.0),  # a cosine of 300 dimensions for each pair of words
        upsilon=True,
    )


_MEASURES = {
    "precision": "precision: of the reply",
    "recall": "recall: of the reference",
    "f": "f: harmonic mean of both",
    "mean": "mean: arithmetic mean of both, as published",
}


def _measure(default: str, *choices: str) -> Choice:
    return Choice(
        name="measure", default=default, choices=choices, help="; ".join(_MEASURES[choice] for choice in choices)
    )


def _rouge(name: str, summary: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        parameters=(
            _measure("f", "f", "precision", "recall"),
            Choice(name="stem", default="no", choices=("yes", "no"), help="Porter's stemmer on words, for English"),
            *shared_parameters.FAMILY,
            Text(
                name="tok",
                default="rouge",
                what="rouge (lower-case ASCII letters and digits, as the reference implementation) or a tokenizer",
                help="how texts become tokens",
            ),
            shared_parameters.CASE,
        ),
        paper="Lin 2004, ROUGE; as in the package rouge-score",
        made_by="refaug.metrics.words.rouge:Rouge",
        cost=Cost(pair=10.0, character=4.0, product=3e-4 if name == "rouge-l" else 0.0),  # stems; rows of bits
        upsilon=True,
    )


def _chrf(name: str, summary: str, word_order: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        parameters=(
            Number(name="char-order", default="6", least=1, most=10, whole=True, help="longest character n-grams"),
            Number(name="word-order", default=word_order, least=0, most=4, whole=True, help="longest word n-grams"),
            Number(name="beta", default="2", least=1, most=10, whole=True, help="weight of recall over precision"),
            Choice(name="eps", default="no", choices=("yes", "no"), help="the smoothing of chrF++.py"),
            Choice(name="space", default="no", choices=("yes", "no"), help="white space counts as characters"),
            Choice(name="case", default="mixed", choices=("mixed", "lc"), help="lc: lower-case before anything else"),
            shared_parameters.REFERENCES,
        ),
        corpus=CorpusScore.SUMS,
        paper="Popović 2015 (chrF), 2017 (chrF++); as sacrebleu defines it",
        made_by="refaug.metrics.words.chrf:Chrf",
        cost=Cost(character=5.0, again=0.2),  # up to ten orders, each counted
        upsilon=True,
    )


_PLAIN = (
    _bleu("bleu", "BLEU against the gold alone", Uses.GOLD, _PAPINENI, shared_parameters.PENALTY_SINGLE),
    _bleu(
        "multi-bleu",
        "BLEU against all the item's own references",
        Uses.OWN,
        _PAPINENI,
        shared_parameters.PENALTY_UNWEIGHTED,
    ),
    _bleu(
        "delta-bleu",
        "BLEU against references weighted by people",
        Uses.RATED,
        _GALLEY,
        shared_parameters.VARIANT,
        shared_parameters.PENALTY_ALL,
    ),
    _bleu(
        "upsilon-bleu",
        "BLEU against retrieved references weighted by a rater",
        Uses.WEIGHTED,
        _TSUTA,
        shared_parameters.VARIANT,
        shared_parameters.PENALTY_ALL,
    ),
    _rouge("rouge-1", "words in common"),
    _rouge("rouge-2", "pairs of words in common"),
    _rouge("rouge-l", "longest common subsequence of words"),
    _chrf("chrf", "F score of character n-grams", "0"),
    _chrf("chrf++", "F score of character and word n-grams", "2"),
    MetricInfo(
        name="ter",
        summary="edits, shifts among them, that turn the reply into a reference, per word of it",
        uses=Uses.OWN,
        high=None,
        parameters=(
            Choice(name="norm", default="no", choices=("yes", "no"), help="normalise and tokenise, as Tercom does"),
            Choice(name="punct", default="yes", choices=("yes", "no"), help="no: leave punctuation out"),
            Choice(name="asian", default="no", choices=("yes", "no"), help="split Chinese and Japanese characters"),
            Choice(name="case", default="lc", choices=("lc", "mixed"), help="lc: case does not matter"),
            shared_parameters.REFERENCES,
        ),
        corpus=CorpusScore.SUMS,
        paper="Snover et al. 2006; computed by sacrebleu",
        made_by="refaug.metrics.words.ter:Ter",
        cost=Cost(character=6.0, again=0.1, counts_shifts=True),
        higher_is_better=False,
        upsilon=True,
    ),
    MetricInfo(
        name="meteor",
        summary="words in common, also as stems and synonyms, less a penalty for their order",
        uses=Uses.OWN,
        parameters=(
            Choice(name="impl", default="nltk", choices=("nltk",), help="whose implementation: they differ"),
            Text(
                name="wordnet",
                default="/usr/share/wordnet",
                what="a folder with WordNet's files (data.noun, index.noun, …), or none to do without synonyms",
                help="where WordNet lies; its content is named in the signature",
            ),
            Number(name="alpha", default="0.9", least=0, most=1, help="weight of recall against precision"),
            Number(name="beta", default="3", least=0, most=10, help="how steeply the penalty for chunks grows"),
            Number(name="gamma", default="0.5", least=0, most=1, help="the largest penalty"),
            *shared_parameters.FAMILY,
            shared_parameters.CASE,
            shared_parameters.TOKENIZER,
        ),
        paper="Banerjee and Lavie 2005; computed by nltk, whose figures are not those of METEOR 1.5",
        made_by="refaug.metrics.words.meteor:Meteor",
        cost=Cost(pair=50.0, again=2.0),
        needs_beside=("WordNet",),
        upsilon=True,
    ),
    MetricInfo(
        name="cider",
        summary="cosine of tf-idf vectors of n-grams, the idf from the references of all items",
        uses=Uses.OWN,
        high=10,
        parameters=(
            Choice(
                name="variant",
                default="cider-d",
                choices=("cider-d", "cider"),
                help="cider-d clips and minds lengths",
            ),
            Number(name="n", default="4", least=1, most=4, whole=True, help="the longest n-grams that are looked at"),
            Number(name="sigma", default="6", least=0.1, most=100, help="width of cider-d's length penalty"),
            Choice(name="stem", default="no", choices=("yes", "no"), help="Porter's stemmer on words, as published"),
            shared_parameters.REFERENCES,
            shared_parameters.CASE,
            shared_parameters.TOKENIZER,
        ),
        paper="Vedantam, Zitnick and Parikh 2015",
        made_by="refaug.metrics.words.cider:Cider",
        cost=Cost(pair=10.0, character=3.0),
    ),
    _cosine(
        "embedding-average",
        "cosine of the mean word vectors",
        "Mitchell and Lapata 2008; Liu et al. 2016",
        shared_parameters.WEIGHTING,
    ),
    _cosine("vector-extrema", "cosine of the most extreme values of the word vectors", "Forgues et al. 2014"),
    _cosine(
        "pooled",
        "cosine of the largest and the smallest values of the word vectors, side by side",
        "Tao et al. 2018, RUBER: its referenced part",
    ),
    _cosine(
        "greedy",
        "every word matched with the most similar one of the other text",
        "Rus and Lintean 2012",
        shared_parameters.WEIGHTING,
        _measure("mean", "mean", "f", "precision", "recall"),
    ),
    MetricInfo(
        name="bertscore",
        summary="every token matched with the most similar one of the other text, as an encoder sees them",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(
            shared_parameters.ENCODER,
            _measure("f", "f", "precision", "recall"),
            Choice(name="idf", default="no", choices=("yes", "no"), help="weigh tokens by rarity in the references"),
            *shared_parameters.FAMILY,
        ),
        paper="Zhang et al. 2020",
        made_by="refaug.metrics.embeddings.encoder_metrics:BertScore",
        cost=ENCODED,
        upsilon=True,
    ),
    MetricInfo(
        name="sentence-cosine",
        summary="cosine of the sentence vectors of an encoder",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(shared_parameters.ENCODER, *shared_parameters.FAMILY),
        paper="Reimers and Gurevych 2019, for example",
        made_by="refaug.metrics.embeddings.encoder_metrics:SentenceCosine",
        cost=ENCODED,
        upsilon=True,
    ),
    MetricInfo(
        name="refaug-1",
        summary="the recommended metric: golds, turns and retrieved references, as an encoder sees them",
        uses=Uses.WEIGHTED,
        parameters=(
            replace(
                shared_parameters.ENCODER,
                name="encoder",
                default="all-minilm-l6-v2#e7874b5aba28",
                help="the encoder, which is part of the version",
            ),
        ),
        paper="ours (docs/recommended.md), after Tsuta, Yoshinaga and Toyoda 2020",
        made_by="refaug.metrics.embeddings.recommended:Recommended",
        cost=ENCODED,
        needs_beside=("the utterance",),
        beside=Uses.CONTEXT,
    ),
    *MODEL_METRICS,
)
_PREFIX = "upsilon-"
_UPSILON = (
    Choice(
        name="agg",
        default="weighted-best",
        choices=("weighted-best", "best", "mean-best-3", "weighted-mean"),
        help="how the scores against an item's references become one (docs/upsilon.md)",
    ),
    Choice(
        name="keep-gold",
        default="no",
        choices=("yes", "no"),
        help="yes: the score against the gold and the aggregate of all others are averaged",
    ),
    Number(name="lambda", default="0", least=0, most=1, help="how much the worst negative reference takes away"),
    Number(name="b", default="0", least=-1, most=0.999, help="the base metric's mean over random pairs: counts as 0"),
)


def _upsilon_of(base: MetricInfo) -> MetricInfo:
    """Return the weighted form of a metric of single references, without parameters about several references."""
    parameters = tuple(
        parameter
        for parameter in base.parameters
        if parameter not in (shared_parameters.REFERENCES, shared_parameters.MULTIPLE)
    )
    return MetricInfo(
        name=f"{_PREFIX}{base.name}",
        summary=f"{base.name} against the references of an item, each counted by its weight",
        uses=Uses.WEIGHTED,
        parameters=(*_UPSILON, *parameters),
        paper=f"ours, after Tsuta, Yoshinaga and Toyoda 2020 and 2023; {base.name}: {base.paper}",
        made_by="refaug.metrics.upsilon:Upsilon",
        cost=base.cost,
        needs_beside=base.needs_beside,
    )


METRICS: Mapping[str, MetricInfo] = {
    info.name: info for info in (*_PLAIN, *(_upsilon_of(info) for info in _PLAIN if info.upsilon))
}


def find_info(name: str) -> MetricInfo | None:
    """Return the metric of that name, ours or of a package; None where there is none."""
    if name in METRICS:
        return METRICS[name]
    base = metric_of_package(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
    return _upsilon_of(base) if base is not None and base.upsilon else metric_of_package(name)


def cost_of(specification: str) -> Cost:
    """Return what the metric of a specification costs; unknown metrics are refused elsewhere."""
    info = find_info(specification.partition(":")[0].strip())
    return LINEAR if info is None else info.cost


def find(name: str) -> MetricInfo:
    """Return the metric of that name, ours or of a package; Usage suggests similar names."""
    if (info := find_info(name)) is not None:
        return info
    if set(several := name.split(",")) <= METRICS.keys():
        raise Usage(
            f"{name!r} names {len(several)} metrics in one", remedy=f"name each by itself: -m {' -m '.join(several)}"
        )
    if (order := re.fullmatch(r"(.*bleu)-?(\d)", name)) is not None and order[1] in METRICS:
        raise Usage(f"no metric is called {name!r}", remedy=f"the order is a parameter: {order[1]}:n={order[2]}")
    near = get_close_matches(name.lower(), METRICS, n=3, cutoff=0.5) or list(METRICS)[:4]
    raise Usage(
        f"no metric is called {name!r}", remedy=f"perhaps {', '.join(near)}; refaug score metrics list has them all"
    )
