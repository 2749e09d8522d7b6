"""The entries of the catalogue for metrics that ask a model: a rater, a ruber, a VHRED, an adem, or judges."""

from __future__ import annotations

from typing import Final

from refaug.metrics.costs import FOLLOWED, HIDDEN, JUDGED
from refaug.metrics.metric_info import MetricInfo, Uses
from refaug.metrics.models.model_kinds import ModelKind, ModelName
from refaug.metrics.parameters import Choice, Members, Number, RangeParameter, Text
from refaug.metrics.shared_parameters import CALIBRATION, COMBINE, SAMPLE, TURNS, VECTORS


def _follow_up(name: str, summary: str, model: ModelName) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.UTTERANCE,
        low=-20,
        high=20,
        parameters=(
            model,
            Text(
                name="followups",
                default="default",
                what="default, or the path of a text file: a follow-up a line, behind + or -",
                help="what may be said after the reply, for it (+) and against it (-)",
            ),
        ),
        paper="Mehri and Eskenazi 2020, Unsupervised Evaluation of Interactive Dialog; models and sayings are ours",
        made_by="refaug.extras.judges.metrics.followups:FollowedReplies",
        cost=FOLLOWED,
        needs_beside=("the utterance",),
        is_beside=True,
    )


def _true_pair(name: str, summary: str, model: str, paper: str) -> MetricInfo:
    return MetricInfo(
        name=name,
        summary=summary,
        uses=Uses.UTTERANCE,
        parameters=(ModelName(name="model", kind=ModelKind.RATER, help=model), TURNS),
        paper=paper,
        made_by="refaug.metrics.models.unreferenced:TruePairs",
        cost=JUDGED,
        needs_beside=("the utterance",),
        is_beside=True,
    )


MODEL_METRICS: Final = (
    MetricInfo(
        name="rater",
        summary="how well a rater thinks that the reply would do, given the utterance and the golds",
        uses=Uses.GOLDS,
        low=-1,
        high=1,
        parameters=(
            ModelName(
                name="model",
                kind=ModelKind.RATER,
                help="the rater that is asked; without it, the rater that weighs references",
            ),
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
        paper="Tsuta, Yoshinaga and Toyoda 2020: the rater of uBLEU, asked about the reply itself",
        made_by="refaug.metrics.models.model_scores:RatedReplies",
        cost=JUDGED,
        needs_beside=("the utterance",),
    ),
    MetricInfo(
        name="masked",
        summary="how well a cross rater tells each hidden piece of the reply from the others and the turns, in nats",
        uses=Uses.UTTERANCE,
        low=-20,
        high=0,
        parameters=(
            ModelName(
                name="model",
                kind=ModelKind.RATER,
                help="a rater of the network cross; without it, the rater that weighs references",
            ),
            TURNS,
        ),
        paper="Mehri and Eskenazi 2020, USR: its masked-language part, with a mean and a network of ours",
        made_by="refaug.metrics.models.unreferenced:MaskedReplies",
        cost=HIDDEN,
        needs_beside=("the utterance",),
        is_beside=True,
    ),
    _true_pair(
        "retrieval",
        "the probability that the reply belongs to its turns, by a rater that told true replies from drawn ones",
        "the rater that is asked; without it, the rater that weighs references",
        "Mehri and Eskenazi 2020, USR: its retrieval part, with a rater of ours",
    ),
    _true_pair(
        "next-utterance",
        "the same by a rater that also told true replies from those whose words were dropped, shuffled or repeated",
        "the rater that is asked, trained with --network cross --negatives noise",
        "Sinha et al. 2020, MAUDE: its score, with a rater of ours",
    ),
    MetricInfo(
        name="ruber",
        summary="how like the references a reply is, blended with how well it goes with the utterance",
        uses=Uses.OWN,  # of the default; other referenced parts look at other references (refaug.metrics.models.ruber)
        parameters=(
            ModelName(name="model", kind=ModelKind.RUBER, help="the network that judges the reply by the utterance"),
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
                what="ruber, or rater with its parameters: rater;model=NAME;combine=max;refs=gold",
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
            SAMPLE,
            Text(
                name="tok",
                default="auto",
                what="a tokenizer, as the referenced part takes it, or auto for its own default",
                help="how texts become tokens in the referenced part",
            ),
            COMBINE,
            CALIBRATION,
        ),
        paper="Tao, Mou, Zhao and Yan 2018, RUBER; norm=log and other parts than pooled and ruber are ours",
        made_by="refaug.metrics.models.ruber:Ruber",
        cost=JUDGED,
        needs_beside=("the utterance",),
        beside=Uses.UTTERANCE,
    ),
    MetricInfo(
        name="likelihood",
        summary="how likely the reply is after the context, or how much the context tells of it, in nats",
        uses=Uses.UTTERANCE,
        low=-100,
        high=100,
        parameters=(
            ModelName(name="model", kind=ModelKind.VHRED, help="the model of dialogue that gives the probabilities"),
            Choice(
                name="kind",
                default="pmi-token",
                choices=("conditional", "unconditional", "pmi", "pmi-token", "worst"),
                help="conditional, unconditional: mean log p of a piece with and without the context; pmi: the "
                "difference of both log p of the whole reply; pmi-token: the same a piece; worst: the least log p of a "
                "piece",
            ),
        ),
        paper="pmi: Li et al. 2016, A Diversity-Promoting Objective Function; a model of dialogue as a metric is ours",
        made_by="refaug.extras.judges.metrics.likelihood:LikelyReplies",
        cost=JUDGED,
        needs_beside=("the utterance",),
    ),
    _follow_up(
        "followup",
        "how much likelier a model of dialogue finds sayings for the reply after it than sayings against it, in nats",
        ModelName(name="lm", kind=ModelKind.VHRED, help="the model of dialogue that gives the probabilities"),
    ),
    _follow_up(
        "followup-endpoint",
        "the same by a language model behind an endpoint that gives log-probabilities of a prompt",
        ModelName(name="lm", kind=ModelKind.JUDGE, help="the endpoint: a file in the folder judges/, or its path"),
    ),
    MetricInfo(
        name="adem",
        summary="the rating that people would give, by a scorer fitted to their ratings; unbounded unless clip=yes",
        uses=Uses.GOLD,  # of the default; other forms look at other parts (refaug.extras.judges.metrics.adem)
        low=1,
        high=5,
        parameters=(
            ModelName(name="model", kind=ModelKind.ADEM, help="the scorer that was fitted to ratings"),
            Choice(
                name="form",
                default="full",
                choices=("full", "context", "reference"),
                help="what the reply is compared with: context and reference, or one of both (C-ADEM, R-ADEM)",
            ),
            Choice(
                name="refs",
                default="gold",
                choices=("gold", "own"),
                help="gold: the first gold, as published; own: all references that came with the item",
            ),
            Choice(
                name="multi",
                default="mean",
                choices=("mean", "max"),
                help="of several references: the mean or the most",
            ),
            Choice(
                name="clip", default="no", choices=("no", "yes"), help="yes: scores outside 1 to 5 count as the end"
            ),
            Choice(
                name="seen",
                default="drop",
                choices=("drop", "keep"),
                help="drop: rows that the adem was fitted to have no score (trained_on); keep: they count",
            ),
        ),
        paper="Lowe et al. 2017, Towards an Automatic Turing Test (ADEM); several references are ours",
        made_by="refaug.extras.judges.metrics.adem:FittedReplies",
        cost=JUDGED,
        needs_beside=("the utterance",),
        beside=Uses.UTTERANCE,
    ),
    MetricInfo(
        name="judge-fit",
        summary="other metrics, each on a scale of ranks, added with weights that people's ratings gave",
        uses=Uses.OWN,  # its components look at what each of them needs (refaug.extras.judges.metrics.combined_replies)
        low=-100,
        high=100,
        parameters=(
            ModelName(
                name="model",
                kind=ModelKind.FITTED_JUDGE,
                help="the judge; judge-fit:NAME is short for judge-fit:model=NAME",
            ),
            Choice(
                name="seen",
                default="drop",
                choices=("drop", "keep"),
                help="drop: rows that the judge was fitted to have no score (trained_on); keep: they count",
            ),
        ),
        paper="Hoerl and Kennard 1970, Ridge Regression; the combination of metrics on normal scores is ours",
        made_by="refaug.extras.judges.metrics.combined_replies:CombinedReplies",
        cost=JUDGED,
        beside=Uses.DIALOGUE,
        leading="model",
    ),
    MetricInfo(
        name="panel",
        summary="several judges and metrics as one, each asked by itself",
        uses=Uses.OWN,  # its members look at what each of them needs
        parameters=(
            Members(name="of", help="the members, at least two; one without a verdict is counted, and costs only that"),
            Choice(
                name="blend",
                default="median",
                choices=("median", "mean", "trimmed", "majority", "weighted"),
                help="trimmed: the mean without the lowest and the highest verdict; majority: whether more than half "
                "are at least 0.5, a tie being 0.5; weighted: the mean by weights",
            ),
            Choice(
                name="norm",
                default="range",
                choices=("range", "test"),
                help="what is 0 and 1 of a member: the ends of its range, or the least and most over the replies at "
                "hand",
            ),
            Text(
                name="weights",
                default="equal",
                what="equal, or a number above 0 for each member with + between them: 2+1+1",
                help="with blend=weighted: how much each member counts",
            ),
        ),
        paper="Verga et al. 2024, Replacing Judges with Juries; metrics beside judges are ours",
        made_by="refaug.extras.judges.metrics.panels:JudgePanel",
        cost=JUDGED,
        needs_beside=("its members",),
        beside=Uses.DIALOGUE,
    ),
    MetricInfo(
        name="judge",
        summary="how good a language model behind an endpoint finds the reply, by a rubric",
        uses=Uses.UTTERANCE,  # of the default; refs=gold and refs=weighted look at references, too
        parameters=(
            ModelName(
                name="model",
                kind=ModelKind.JUDGE,
                help="the judge: a file in the folder judges/ of the home, or its path",
            ),
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
        paper="Zheng et al. 2023, MT-Bench; score=expected: Liu et al. 2023, G-Eval; refs=weighted is ours",
        made_by="refaug.extras.judges.metrics.judged_replies:JudgedReplies",
        cost=JUDGED,
        needs_beside=("the utterance",),
    ),
)
