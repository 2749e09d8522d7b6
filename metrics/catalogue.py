"""The catalogue of metrics: what each is, needs and means. It computes nothing, so that it loads at once.

The `build` function of the module named in its entry builds a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from refaug.core.errors import Usage
from refaug.metrics.metric_info import (
    A_JUDGE,
    A_RATER,
    A_RUBER,
    A_VHRED,
    CorpusScore,
    ForcedParameters,
    MetricInfo,
    Uses,
)
from refaug.metrics.parameters import Choice, Number, Parameter, Text
from refaug.metrics.ranges import RangeParameter
from refaug.metrics.shared_parameters import (
    CALIBRATION,
    CASE,
    COMBINE,
    EFFECTIVE,
    ENCODER,
    FAMILY,
    MULTIPLE,
    ORDER,
    PENALTY_ALL,
    PENALTY_SINGLE,
    PENALTY_UNWEIGHTED,
    REFERENCES,
    SMOOTHING,
    TOKENIZER,
    TURNS,
    VARIANT,
    VECTORS,
    WEIGHTING,
)

# The released code has neither, and this variant reproduces its figures.
_TSUTA20 = ForcedParameters(name="variant", value="tsuta20", others={"smooth": "none", "eff": "no"})
_PAPINENI = "Papineni et al. 2002, BLEU; multiple references, clipped counts"
_GALLEY = "Galley et al. 2015, deltaBLEU"
_TSUTA = "Tsuta, Yoshinaga and Toyoda 2020, uBLEU (ACL student research workshop)"


def _bleu(name: str, summary: str, uses: Uses, paper: str, *parameters: Parameter) -> MetricInfo:
    shared = (SMOOTHING, *parameters, EFFECTIVE, CASE, TOKENIZER)
    return MetricInfo(
        name=name,
        summary=summary,
        uses=uses,
        low=0,
        high=1,
        parameters=(ORDER, *shared) if VARIANT not in parameters else _with_variant(shared),
        corpus=CorpusScore.SUMS,
        paper=paper,
        module="refaug.metrics.words.bleu",
        forced=(_TSUTA20,) if VARIANT in parameters else (),
    )


def _with_variant(shared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return the parameters in the order of the signature: n, variant, smooth, bp, eff, case, tok."""
    return (ORDER, VARIANT, *(parameter for parameter in shared if parameter is not VARIANT))


def _cosine(name: str, summary: str, paper: str, *parameters: Parameter) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(VECTORS, *parameters, *FAMILY, CASE, TOKENIZER),
        corpus=CorpusScore.MEAN,
        paper=paper,
        module="refaug.metrics.embeddings.word_vector_metrics",
        needs=("word vectors",),
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
        low=0,
        high=1,
        parameters=(
            _measure("f", "f", "precision", "recall"),
            Choice(name="stem", default="no", choices=("yes", "no"), help="Porter's stemmer on words, for English"),
            *FAMILY,
            Text(
                name="tok",
                default="rouge",
                what="rouge (lower-case ASCII letters and digits, as the reference implementation) or a tokenizer",
                help="how texts become tokens",
            ),
            CASE,
        ),
        corpus=CorpusScore.MEAN,
        paper="Lin 2004, ROUGE; computed by the package rouge-score",
        module="refaug.metrics.words.rouge",
        upsilon=True,
    )


def _chrf(name: str, summary: str, word_order: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        low=0,
        high=1,
        parameters=(
            Number(name="char-order", default="6", least=1, most=10, whole=True, help="longest character n-grams"),
            Number(name="word-order", default=word_order, least=0, most=4, whole=True, help="longest word n-grams"),
            Number(name="beta", default="2", least=1, most=10, whole=True, help="weight of recall over precision"),
            Choice(name="eps", default="no", choices=("yes", "no"), help="the smoothing of chrF++.py"),
            Choice(name="space", default="no", choices=("yes", "no"), help="white space counts as characters"),
            Choice(name="case", default="mixed", choices=("mixed", "lc"), help="lc: lower-case before anything else"),
            REFERENCES,
        ),
        corpus=CorpusScore.SUMS,
        paper="Popović 2015 (chrF), 2017 (chrF++); as sacrebleu defines it",
        module="refaug.metrics.words.chrf",
        upsilon=True,
    )


_PLAIN = (
    _bleu("bleu", "BLEU against the gold alone", Uses.GOLD, _PAPINENI, PENALTY_SINGLE),
    _bleu("multi-bleu", "BLEU against all the item's own references", Uses.OWN, _PAPINENI, PENALTY_UNWEIGHTED),
    _bleu("delta-bleu", "BLEU against references weighted by people", Uses.RATED, _GALLEY, VARIANT, PENALTY_ALL),
    _bleu(
        "upsilon-bleu",
        "BLEU against retrieved references weighted by a rater",
        Uses.WEIGHTED,
        _TSUTA,
        VARIANT,
        PENALTY_ALL,
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
        low=0,
        high=None,
        parameters=(
            Choice(name="norm", default="no", choices=("yes", "no"), help="normalise and tokenise, as Tercom does"),
            Choice(name="punct", default="yes", choices=("yes", "no"), help="no: leave punctuation out"),
            Choice(name="asian", default="no", choices=("yes", "no"), help="split Chinese and Japanese characters"),
            Choice(name="case", default="lc", choices=("lc", "mixed"), help="lc: case does not matter"),
            REFERENCES,
        ),
        corpus=CorpusScore.SUMS,
        paper="Snover et al. 2006; computed by sacrebleu",
        module="refaug.metrics.words.ter",
        higher_is_better=False,
        upsilon=True,
    ),
    MetricInfo(
        name="meteor",
        summary="words in common, also as stems and synonyms, less a penalty for their order",
        uses=Uses.OWN,
        low=0,
        high=1,
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
            *FAMILY,
            CASE,
            TOKENIZER,
        ),
        corpus=CorpusScore.MEAN,
        paper="Banerjee and Lavie 2005; computed by nltk, whose figures are not those of METEOR 1.5",
        module="refaug.metrics.words.meteor",
        needs=("WordNet",),
        upsilon=True,
    ),
    MetricInfo(
        name="cider",
        summary="cosine of tf-idf vectors of n-grams, the idf from the references of all items",
        uses=Uses.OWN,
        low=0,
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
            REFERENCES,
            CASE,
            TOKENIZER,
        ),
        corpus=CorpusScore.MEAN,
        paper="Vedantam, Zitnick and Parikh 2015",
        module="refaug.metrics.words.cider",
    ),
    _cosine(
        "embedding-average", "cosine of the mean word vectors", "Mitchell and Lapata 2008; Liu et al. 2016", WEIGHTING
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
        WEIGHTING,
        _measure("mean", "mean", "f", "precision", "recall"),
    ),
    MetricInfo(
        name="bertscore",
        summary="every token matched with the most similar one of the other text, as an encoder sees them",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(
            ENCODER,
            _measure("f", "f", "precision", "recall"),
            Choice(name="idf", default="no", choices=("yes", "no"), help="weigh tokens by rarity in the references"),
            *FAMILY,
        ),
        corpus=CorpusScore.MEAN,
        paper="Zhang et al. 2020",
        module="refaug.metrics.embeddings.encoder_metrics",
        needs=("an ONNX encoder",),
        upsilon=True,
    ),
    MetricInfo(
        name="sentence-cosine",
        summary="cosine of the sentence vectors of an encoder",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(ENCODER, *FAMILY),
        corpus=CorpusScore.MEAN,
        paper="Reimers and Gurevych 2019, for example",
        module="refaug.metrics.embeddings.encoder_metrics",
        needs=("an ONNX encoder",),
        upsilon=True,
    ),
    MetricInfo(
        name="rater",
        summary="how well a rater thinks that the reply would do, given the utterance and the golds",
        uses=Uses.GOLDS,
        low=-1,
        high=1,
        parameters=(
            Choice(name="target", default="reply", choices=("reply",), help="what is rated"),
            COMBINE,
            CALIBRATION,
            TURNS,
            Choice(
                name="refs",
                default="golds",
                choices=("golds", "gold", "none"),
                help="golds: the mean of the ratings against each gold; gold: against the first gold alone; none: by "
                "the utterance alone",
            ),
        ),
        corpus=CorpusScore.MEAN,
        paper="Tsuta, Yoshinaga and Toyoda 2020: the rater of uBLEU, asked about the reply itself",
        module="refaug.metrics.models.model_scores",
        needs=(A_RATER, "the utterance"),
    ),
    MetricInfo(
        name="ruber",
        summary="how like the references a reply is, blended with how well it goes with the utterance",
        uses=Uses.OWN,  # of the default; other referenced parts look at other references (refaug.metrics.models.ruber)
        low=0,
        high=1,
        parameters=(
            Choice(
                name="blend",
                default="arithmetic",
                choices=("arithmetic", "geometric", "min", "max"),
                help="how the two parts become one: a mean, the smaller or the larger; all four are published, and are "
                "near each other there",
            ),
            Text(
                name="referenced",
                default="pooled",
                what="a metric of references, with semicolons: upsilon-greedy;weighting=sif;keep-gold=yes",
                help="what compares the reply with references; it decides which of them count",
            ),
            Text(
                name="unreferenced",
                default="ruber",
                what="ruber, or rater with its parameters: rater;combine=max;refs=gold",
                help="what judges the reply by the utterance: a ruber, or the rating of rater:target=reply",
            ),
            Choice(
                name="norm",
                default="log",
                choices=("log", "test", "none"),
                help="what is 0 and 1 of a part: its 1st and 99th percentile over pairs of a log; the least and most "
                "over the replies at hand, as published; or 0 and 1 (-1 and 1 of a rating)",
            ),
            RangeParameter(
                name="range-ref", default="auto", help="with norm=log: what is 0 and 1 of the referenced part"
            ),
            RangeParameter(
                name="range-unref", default="auto", help="with norm=log: what is 0 and 1 of the unreferenced part"
            ),
            VECTORS,
            Text(
                name="tok",
                default="auto",
                what="a tokenizer, as the referenced part takes it, or auto for its own default",
                help="how texts become tokens in the referenced part",
            ),
            COMBINE,
            CALIBRATION,
        ),
        corpus=CorpusScore.MEAN,
        paper="Tao, Mou, Zhao and Yan 2018, RUBER; norm=log and other parts than pooled and ruber are ours",
        module="refaug.metrics.models.ruber",
        needs=(A_RUBER, "the utterance", "word vectors", "an index"),
        beside=Uses.UTTERANCE,
    ),
    MetricInfo(
        name="likelihood",
        summary="how likely the reply is after the context, or how much the context tells of it, in nats",
        uses=Uses.UTTERANCE,
        low=-100,
        high=100,
        parameters=(
            Text(
                name="model",
                default="none",
                what="a VHRED: name or name@version (refaug adem list)",
                help="the model of dialogue that gives the probabilities; it must be named",
            ),
            Choice(
                name="kind",
                default="pmi-token",
                choices=("conditional", "unconditional", "pmi", "pmi-token", "worst"),
                help="conditional, unconditional: mean log p of a piece with and without the context; pmi: the "
                "difference of both log p of the whole reply; pmi-token: the same a piece; worst: the least log p of a "
                "piece",
            ),
        ),
        corpus=CorpusScore.MEAN,
        paper="pmi: Li et al. 2016, A Diversity-Promoting Objective Function; a model of dialogue as a metric is ours",
        module="refaug.metrics.models.likelihood",
        needs=(A_VHRED, "the utterance"),
    ),
    MetricInfo(
        name="judge",
        summary="how good a language model behind an endpoint finds the reply, by a rubric",
        uses=Uses.UTTERANCE,  # of the default; refs=gold and refs=weighted look at references, too
        low=0,
        high=1,
        parameters=(
            Text(
                name="rubric",
                default="overall",
                what="overall | appropriateness | relevance, or a file that ends in .toml",
                help="what is judged and on which scale (docs/judge.md)",
            ),
            Choice(
                name="refs",
                default="none",
                choices=("none", "gold", "weighted"),
                help="what the judge sees beside the dialogue: nothing, the golds, or all references, weighted",
            ),
            Number(
                name="turns",
                default="10",
                least=1,
                most=100,
                whole=True,
                help="turns of the dialogue that the judge sees, the last ones",
            ),
            Choice(
                name="score",
                default="number",
                choices=("number", "expected"),
                help="number: what the judge writes; expected: the mean of all numbers that it could have written, "
                "by their probabilities, which the endpoint must give",
            ),
            Number(name="samples", default="1", least=1, most=50, whole=True, help="answers to each question"),
            Number(
                name="temperature", default="0", least=0, most=2, help="of the answers; above 0 for several samples"
            ),
            Number(name="seed", default="1", least=0, most=2**31 - 1, whole=True, help="of the first sample"),
            Number(
                name="repeat",
                default="0",
                least=0,
                most=1000,
                whole=True,
                help="questions that are asked twice, to see whether the answers hold",
            ),
        ),
        corpus=CorpusScore.MEAN,
        paper="Zheng et al. 2023, MT-Bench; score=expected: Liu et al. 2023, G-Eval; refs=weighted is ours",
        module="refaug.metrics.models.judged_replies",
        needs=(A_JUDGE, "the utterance"),
    ),
)
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
    parameters = tuple(parameter for parameter in base.parameters if parameter not in (REFERENCES, MULTIPLE))
    return MetricInfo(
        name=f"upsilon-{base.name}",
        summary=f"{base.name} against the references of an item, each counted by its weight",
        uses=Uses.WEIGHTED,
        low=0,
        high=1,
        parameters=(*_UPSILON, *parameters),
        corpus=CorpusScore.MEAN,
        paper=f"ours; {base.name}: {base.paper}",
        module="refaug.metrics.upsilon",
        needs=base.needs,
    )


METRICS: Mapping[str, MetricInfo] = {
    info.name: info for info in (*_PLAIN, *(_upsilon_of(info) for info in _PLAIN if info.upsilon))
}


def find(name: str) -> MetricInfo:
    """Return the metric of that name; Usage suggests similar names."""
    if name in METRICS:
        return METRICS[name]
    near = get_close_matches(name.lower(), METRICS, n=3, cutoff=0.5) or list(METRICS)[:4]
    raise Usage(f"no metric is called {name!r}", remedy=f"perhaps {', '.join(near)}; refaug metrics list has them all")
