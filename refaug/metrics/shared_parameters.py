"""Parameters that several metrics share."""

from __future__ import annotations

from refaug.metrics.models.model_kinds import ModelKind, ModelName
from refaug.metrics.parameters import Choice, Number, Smoothing, Text

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
REFERENCES = Choice(
    name="refs",
    default="own",
    choices=("own", "gold"),
    help="own: all references that came with the item; gold: the first gold alone",
)
ORDER = Number(name="n", default="2", least=1, most=4, whole=True, help="the longest n-grams that are looked at")
VARIANT = Choice(
    name="variant",
    default="galley15",
    choices=("galley15", "galley-fork", "tsuta20", "sacrebleu-raw"),
    help="how weights act on matches (docs/bleu.md)",
)
SMOOTHING = Smoothing(name="smooth", default="exp", help="what an order without a match counts (docs/bleu.md)")
EFFECTIVE = Choice(
    name="eff",
    default="auto",
    choices=("auto", "yes", "no"),
    help="effective order: leave out orders for which the reply is too short; auto: for replies, not for a corpus",
)
_PENALTY_LENGTHS = {
    "closest": "the closest reference",
    "closest-positive": "the closest of positive weight",
    "average": "the average of an item's references",
    "gold": "the gold",
    "none": "none",
}


def _penalty(*choices: str) -> Choice:
    lengths = ", ".join(_PENALTY_LENGTHS[choice] for choice in choices)
    return Choice(
        name="bp",
        default="closest",
        choices=choices,
        help=f"the length below which a reply is penalised, that of: {lengths}",
    )


PENALTY_ALL = _penalty("closest", "closest-positive", "average", "gold", "none")
PENALTY_UNWEIGHTED = _penalty("closest", "average", "gold", "none")
PENALTY_SINGLE = _penalty("closest", "none")
VECTORS = ModelName(
    name="vectors", kind=ModelKind.VECTORS, help="the word vectors: of the home, or a file of GloVe or word2vec"
)
SAMPLE = ModelName(
    name="sample",
    kind=ModelKind.INDEX,
    help="with norm=log: the index whose log is sampled; without it, the one that references are found in",
)
WEIGHTING = Choice(
    name="weighting",
    default="none",
    choices=("none", "sif"),
    help="none: every word alike, as published; sif: a / (a + p(word)), a = 0.001, so that common words count less",
)
MULTIPLE = Choice(
    name="multi",
    default="best",
    choices=("best", "mean"),
    help="of several references: the best score, or the mean",
)
ENCODER = ModelName(
    name="vectors",
    kind=ModelKind.ENCODER,
    help="the encoder: of the home, or a folder with model.onnx and tokenizer.json",
)
FAMILY = (REFERENCES, MULTIPLE)
COMBINE = Choice(
    name="combine",
    default="first",
    choices=("first", "first-literal", "max", "confident", "mean"),
    help="how the rater's two answers become a rating (docs/raters.md)",
)
TURNS = Number(
    name="turns",
    default="1",
    least=1,
    most=100,
    whole=True,
    help="turns of the dialogue that the reply is judged by, the last ones, read as one text; 1: the utterance",
)
CALIBRATION = Choice(name="cal", default="raw", choices=("raw", "cal"), help="cal: with the rater's temperature")
