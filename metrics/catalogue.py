"""The register of metrics: what each is, needs and means; nothing here computes anything, so that it loads at once.

A metric is computed by the `build` function of the module named in its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from core.errors import Usage
from metrics.parameters import Choice, Number, Parameter, Smoothing, Text
from metrics.ranges import RangeParameter


class Uses(StrEnum):
    """Which of an item's references a metric looks at, and with what weights."""

    GOLD = "gold"  # the first gold
    GOLDS = "golds"  # all golds and the utterance that they answer; nothing that people gave a weight, it may be bad
    OWN = "own"  # all that came with the item, every weight 1
    RATED = "rated"  # the golds at 1, and those that people gave a weight
    WEIGHTED = "weighted"  # all with their weights: golds, parrot, retrieved, supplied
    UTTERANCE = "utterance"  # no reference at all: the utterance alone


class Corpus(StrEnum):
    """Where a metric's corpus score comes from."""

    SUMS = "sums"  # from added statistics: it is not the mean of the reply scores
    MEAN = "mean"  # the mean of the reply scores


A_RATER: Final = "a rater"  # what a metric needs that is bound to one before it can score anything
A_RUBER: Final = "a ruber"  # the same: a network that says how well a reply goes with an utterance


@dataclass(frozen=True, kw_only=True)
class Forced:
    """A value of one parameter that leaves others no choice."""

    name: str
    value: str
    others: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """One entry of the register."""

    name: str
    summary: str
    uses: Uses
    low: float
    high: float | None  # None: no upper bound
    parameters: tuple[Parameter, ...]
    corpus: Corpus
    paper: str
    module: str
    higher_is_better: bool = True
    needs: tuple[str, ...] = ()  # beside the texts
    upsilon: bool = False  # whether upsilon-<name> exists
    forced: tuple[Forced, ...] = ()
    beside: Uses | None = None  # what the second part of a metric of two parts looks at

    @property
    def is_share(self) -> bool:
        """Whether scores are in [0, 1], so that they can be shown in per cent."""
        return (self.low, self.high) == (0, 1)

    @property
    def needs_rater(self) -> bool:
        """Whether a rater has to be named for it."""
        return A_RATER in self.needs

    @property
    def needs_ruber(self) -> bool:
        """Whether a ruber has to be named for it."""
        return A_RUBER in self.needs

    @property
    def looks_at_utterance(self) -> bool:
        """Whether a score depends on what is replied to, and not on references alone."""
        return bool({self.uses, self.beside} & {Uses.GOLDS, Uses.UTTERANCE})

    @property
    def direction(self) -> str:
        """In words."""
        return "higher is better" if self.higher_is_better else "lower is better"

    @property
    def range(self) -> str:
        """In words."""
        return f"{self.low:g} to {'∞' if self.high is None else f'{self.high:g}'}"

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name."""
        return next((one for one in self.parameters if one.name == name), None)


# ── parameters that several metrics share ─────────────────────────────────────────────────────────────────────────

TOKENIZER = Text(
    name="tok",
    default="word",
    what="a tokenizer: word | char | 13a | intl | mecab | mecab:unidic-lite | sentencepiece:<model>",
    help="how texts become tokens",
)
CASE = Choice(
    name="case",
    default="auto",
    choices=("auto", "lc", "mixed"),
    help="lc: lower-case before anything else; auto: lc where the tokenizer does so itself (word), else mixed",
)
_REFERENCES = Choice(
    name="refs",
    default="own",
    choices=("own", "gold"),
    help="own: all references that came with the item; gold: the first gold alone",
)
_ORDER = Number(name="n", default="2", least=1, most=4, whole=True, help="the longest n-grams that are looked at")
_VARIANT = Choice(
    name="variant",
    default="galley15",
    choices=("galley15", "galley-fork", "tsuta20", "sacrebleu-raw"),
    help="how weights act on matches (docs/bleu.md)",
)
# The released code has neither, and its figures are what this variant is for.
_TSUTA20 = Forced(name="variant", value="tsuta20", others={"smooth": "none", "eff": "no"})
_SMOOTHING = Smoothing(name="smooth", default="add-k", help="what an order without a match counts (docs/bleu.md)")
_EFFECTIVE = Choice(
    name="eff",
    default="auto",
    choices=("auto", "yes", "no"),
    help="effective order: leave out orders for which the reply is too short; auto: for replies, not for a corpus",
)


_HELD_TO = {
    "closest": "the closest reference",
    "closest-positive": "the closest of positive weight",
    "average": "the average of an item's references",
    "gold": "the gold",
    "none": "none",
}


def _penalty(*choices: str) -> Choice:
    lengths = ", ".join(_HELD_TO[choice] for choice in choices)
    return Choice(
        name="bp",
        default="closest",
        choices=choices,
        help=f"the length below which a reply is penalised, that of: {lengths}",
    )


_PENALTY_ALL = _penalty("closest", "closest-positive", "average", "gold", "none")
_PENALTY_UNWEIGHTED = _penalty("closest", "average", "gold", "none")
_PENALTY_SINGLE = _penalty("closest", "none")
_VECTORS = Text(
    name="vectors", default="", what="a file of word vectors (GloVe or word2vec)", help="the word vectors to use"
)
_WEIGHTING = Choice(
    name="weighting",
    default="none",
    choices=("none", "sif"),
    help="none: every word alike, as published; sif: a / (a + p(word)), a = 0.001, so that common words count less",
)
_MULTIPLE = Choice(
    name="multi",
    default="best",
    choices=("best", "mean"),
    help="of several references: the best score, or the mean",
)
_ENCODER = Text(
    name="encoder", default="", what="a folder with model.onnx and tokenizer.json", help="the ONNX encoder to use"
)
_FAMILY = (_REFERENCES, _MULTIPLE)
_COMBINE = Choice(
    name="combine",
    default="first",
    choices=("first", "first-literal", "max", "confident", "mean"),
    help="how the rater's two answers become a rating (docs/raters.md)",
)
_TURNS = Number(
    name="turns",
    default="1",
    least=1,
    most=100,
    whole=True,
    help="turns of the dialogue that the reply is judged by, the last ones, read as one text; 1: the utterance",
)
_CALIBRATION = Choice(name="cal", default="raw", choices=("raw", "cal"), help="cal: with the rater's temperature")

_PAPINENI = "Papineni et al. 2002, BLEU; multiple references, clipped counts"
_GALLEY = "Galley et al. 2015, deltaBLEU"
_TSUTA = "Tsuta, Yoshinaga and Toyoda 2020, uBLEU (ACL student research workshop)"


def _bleu(name: str, summary: str, uses: Uses, paper: str, *parameters: Parameter) -> MetricInfo:
    shared = (_SMOOTHING, *parameters, _EFFECTIVE, CASE, TOKENIZER)
    return MetricInfo(
        name=name,
        summary=summary,
        uses=uses,
        low=0,
        high=1,
        parameters=(_ORDER, *shared) if _VARIANT not in parameters else _with_variant(shared),
        corpus=Corpus.SUMS,
        paper=paper,
        module="metrics.bleu",
        forced=(_TSUTA20,) if _VARIANT in parameters else (),
    )


def _with_variant(shared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """The order of the signature: n, variant, smooth, bp, eff, case, tok."""
    return (_ORDER, _VARIANT, *(one for one in shared if one is not _VARIANT))


def _cosine(name: str, summary: str, paper: str, *parameters: Parameter) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(_VECTORS, *parameters, *_FAMILY, CASE, TOKENIZER),
        corpus=Corpus.MEAN,
        paper=paper,
        module="metrics.embedding_metrics",
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
            *_FAMILY,
            Text(
                name="tok",
                default="rouge",
                what="rouge (lower-case ASCII letters and digits, as the reference implementation) or a tokenizer",
                help="how texts become tokens",
            ),
            CASE,
        ),
        corpus=Corpus.MEAN,
        paper="Lin 2004, ROUGE; computed by the package rouge-score",
        module="metrics.rouge",
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
            _REFERENCES,
        ),
        corpus=Corpus.SUMS,
        paper="Popović 2015 (chrF), 2017 (chrF++); as sacrebleu defines it",
        module="metrics.chrf",
        upsilon=True,
    )


_PLAIN = (
    _bleu("bleu", "BLEU against the gold alone", Uses.GOLD, _PAPINENI, _PENALTY_SINGLE),
    _bleu("multi-bleu", "BLEU against all the item's own references", Uses.OWN, _PAPINENI, _PENALTY_UNWEIGHTED),
    _bleu("delta-bleu", "BLEU against references weighted by people", Uses.RATED, _GALLEY, _VARIANT, _PENALTY_ALL),
    _bleu(
        "upsilon-bleu",
        "BLEU against retrieved references weighted by a rater",
        Uses.WEIGHTED,
        _TSUTA,
        _VARIANT,
        _PENALTY_ALL,
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
            _REFERENCES,
        ),
        corpus=Corpus.SUMS,
        paper="Snover et al. 2006; computed by sacrebleu",
        module="metrics.ter",
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
            *_FAMILY,
            CASE,
            TOKENIZER,
        ),
        corpus=Corpus.MEAN,
        paper="Banerjee and Lavie 2005; computed by nltk, whose figures are not those of METEOR 1.5",
        module="metrics.meteor",
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
            _REFERENCES,
            CASE,
            TOKENIZER,
        ),
        corpus=Corpus.MEAN,
        paper="Vedantam, Zitnick and Parikh 2015",
        module="metrics.cider",
    ),
    _cosine(
        "embedding-average", "cosine of the mean word vectors", "Mitchell and Lapata 2008; Liu et al. 2016", _WEIGHTING
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
        _WEIGHTING,
        _measure("mean", "mean", "f", "precision", "recall"),
    ),
    MetricInfo(
        name="bertscore",
        summary="every token matched with the most similar one of the other text, as an encoder sees them",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(
            _ENCODER,
            _measure("f", "f", "precision", "recall"),
            Choice(name="idf", default="no", choices=("yes", "no"), help="weigh tokens by rarity in the references"),
            *_FAMILY,
        ),
        corpus=Corpus.MEAN,
        paper="Zhang et al. 2020",
        module="metrics.encoder_metrics",
        needs=("an ONNX encoder",),
        upsilon=True,
    ),
    MetricInfo(
        name="sentence-cosine",
        summary="cosine of the sentence vectors of an encoder",
        uses=Uses.OWN,
        low=-1,
        high=1,
        parameters=(_ENCODER, *_FAMILY),
        corpus=Corpus.MEAN,
        paper="Reimers and Gurevych 2019, for example",
        module="metrics.encoder_metrics",
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
            _COMBINE,
            _CALIBRATION,
            _TURNS,
            Choice(
                name="refs",
                default="golds",
                choices=("golds", "gold"),
                help="golds: the mean of the ratings against each gold; gold: against the first gold alone",
            ),
        ),
        corpus=Corpus.MEAN,
        paper="Tsuta, Yoshinaga and Toyoda 2020: the rater of uBLEU, asked about the reply itself",
        module="metrics.model_scores",
        needs=(A_RATER, "the utterance"),
    ),
    MetricInfo(
        name="ruber",
        summary="how like the references a reply is, blended with how well it goes with the utterance",
        uses=Uses.OWN,  # and what other referenced parts look at: metrics.ruber
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
            _VECTORS,
            Text(
                name="tok",
                default="auto",
                what="a tokenizer, as the referenced part takes it, or auto for its own default",
                help="how texts become tokens in the referenced part",
            ),
            _COMBINE,
            _CALIBRATION,
        ),
        corpus=Corpus.MEAN,
        paper="Tao, Mou, Zhao and Yan 2018, RUBER; norm=log and other parts than pooled and ruber are ours",
        module="metrics.ruber",
        needs=(A_RUBER, "the utterance", "word vectors", "an index"),
        beside=Uses.UTTERANCE,
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
    """The weighted form of a metric of single references; what combines several references falls away."""
    kept = tuple(one for one in base.parameters if one not in (_REFERENCES, _MULTIPLE))
    return MetricInfo(
        name=f"upsilon-{base.name}",
        summary=f"{base.name} against the references of an item, each counted by its weight",
        uses=Uses.WEIGHTED,
        low=0,
        high=1,
        parameters=(*_UPSILON, *kept),
        corpus=Corpus.MEAN,
        paper=f"ours; {base.name}: {base.paper}",
        module="metrics.upsilon",
        needs=base.needs,
    )


METRICS: Mapping[str, MetricInfo] = {
    info.name: info for info in (*_PLAIN, *(_upsilon_of(info) for info in _PLAIN if info.upsilon))
}


def find(name: str) -> MetricInfo:
    """The metric of that name, or Usage with the names that are near."""
    if name in METRICS:
        return METRICS[name]
    near = get_close_matches(name.lower(), METRICS, n=3, cutoff=0.5) or list(METRICS)[:4]
    raise Usage(f"no metric is called {name!r}", remedy=f"perhaps {', '.join(near)}; refaug metrics list has them all")
