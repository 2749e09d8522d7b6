"""`reproduce networks`: HRED, VHRED and VHCR, with and without heads of emotion and meaning, over several seeds.

Ghandeharioun et al. (2019) compare six networks, and say that learning to predict emotion and meaning of what was said
makes better ones. Here the networks are small, learn from one log of whole dialogues, and are told apart by figures
alone: the bound on the likelihood of held-out turns, and what they say to themselves. Beside the ablations stand two
controls, whose heads learn as much of what says nothing: emotions of other turns, and meanings that were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import numpy as np
from scipy import stats

from refaug.core.errors import NotFound
from refaug.extras.conversations.hybrid_metric.encoders import open_encoders
from refaug.extras.conversations.options import EncoderRequest
from refaug.extras.reproduction.figures.correlations import IntervalEstimate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.networks.talk import RULES, WRITING, PeopleFit, SelfTalk, talk_of
from refaug.extras.reproduction.networks.variants import (
    ABLATED,
    ABLATIONS,
    CONTROLS,
    EMOTION,
    HEAD_UNITS,
    INPUT_ONLY,
    LOG,
    ROUNDS,
    SEEDS,
    SIX,
    USUAL,
    VARIANTS,
    TrainedVariant,
    TrainingPlan,
    Variant,
    is_trained,
    train_variant,
)
from refaug.extras.reproduction.report.report import ExperimentReport, cell
from refaug.rater.adem.pretraining.targets import HeadOrder
from refaug.rater.adem.vhred.conversation_sizes import HEAD_DEFAULTS
from refaug.scoring.home.teachers import meaning_choice
from refaug.tables.reports.report import Section
from refaug.tables.reports.table import Table

PERPLEXITY, HYBRID = "perplexity", "hybrid"
_LEVEL: Final = 0.95
_OF_TRAINING: Final = (PERPLEXITY, "kl", "kl_conversation", "discrimination", "nats over unigrams")
_OF_REPLIES: Final = ("distinct_1", "distinct_2", "repeated", "words_per_reply", "overlap_3", "overlap_5")
_OF_TALK: Final = (
    "sentiment",
    "laughter",
    "sentiment-coherence",
    "semantic-similarity",
    "average-coherence",
    "questions",
)
_HIGHER: Final = "higher"
_CLAIMS: Final = (  # what Ghandeharioun et al. say of EI, as a figure here and which way it should go
    ("EI lowers perplexity (on Cornell: of HRED and VHCR, not of VHRED)", PERPLEXITY, "lower"),
    ("EI makes longer replies", "words_per_reply", _HIGHER),
    ("EI makes more laughter", "laughter", _HIGHER),
    ("EI makes replies more coherent", "average-coherence", _HIGHER),
    ("EI makes bots that people rate higher (here: the hybrid metric)", HYBRID, _HIGHER),
)

Figures = Mapping[str, float]


def networks(chain: Chain, _sets: Sequence[ProofSet]) -> ExperimentReport:
    """Return the report of all networks over all seeds."""
    return compare_networks(chain)


def compare_networks(chain: Chain, plan: TrainingPlan = USUAL) -> ExperimentReport:
    """Train and compare them by a plan."""
    compared = _Compared.of(chain, plan)
    columns = (*_OF_TRAINING, *_OF_REPLIES, *_OF_TALK, *((HYBRID,) if compared.people else ()))
    claims = compared.claims()
    return ExperimentReport(
        name="networks",
        title="Six networks: with and without heads for emotion and meaning",
        summary=tuple(_summary(compared, claims)),
        sections=_sections(compared, columns, claims),
        data={
            "variants": {variant.name: compared.as_json(variant, columns) for variant in VARIANTS},
            "differences": {
                name: {figure: compared.difference(*pair, figure).as_json() for figure in columns}
                for name, pair in _PAIRS.items()
            },
            "claims": claims,
            "setting": compared.setting,
        },
        notes=tuple(_notes(compared)),
    )


_PAIRS: Final = {
    f"{variant.name} less {base.name}": (variant, base)
    for variant, base in (
        (SIX[1], SIX[0]),
        (SIX[3], SIX[2]),
        (SIX[5], SIX[4]),
        *((changed, SIX[2]) for changed in (*ABLATIONS, INPUT_ONLY, *CONTROLS)),
        *zip(ABLATIONS, CONTROLS, strict=True),
        (SIX[2], SIX[0]),
        (SIX[4], SIX[2]),
    )
}
_EI_PAIRS: Final = tuple(_PAIRS)[:3]


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """All trained networks with what they said."""

    trained: Sequence[TrainedVariant]
    talks: Mapping[str, SelfTalk]  # by the name of the bot
    figures: Mapping[str, Figures]  # likewise
    people: PeopleFit | None
    setting: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, chain: Chain, plan: TrainingPlan) -> _Compared:
        """Train what is not trained, seed by seed, and let each network talk to itself."""
        meaning_choice(chain.home, chain.settings.encoder, threads=chain.settings.threads)  # NotFound, before hours
        request = EncoderRequest(vectors=chain.vectors())
        encoders = open_encoders(chain.home, request)
        trained, talks, minutes = list[TrainedVariant](), dict[str, SelfTalk](), chain.settings.minutes
        until = math.inf if minutes is None else perf_counter() + 60 * minutes
        for seed in _seeds(chain):
            for variant in VARIANTS:
                if perf_counter() >= until and not is_trained(chain, variant, seed, plan):
                    continue
                network = train_variant(chain, variant, seed, plan)
                trained.append(network)
                talks[network.name] = talk_of(chain, network, encoders, plan)
        if not trained:
            raise NotFound("no network is trained", remedy="give it more minutes: --minutes")
        people = PeopleFit.of(chain, request, encoders)
        scores = people.scores([talks[network.name] for network in trained]) if people else [math.nan] * len(trained)
        figures = {one.name: _figures(one, talks[one.name], score) for one, score in zip(trained, scores, strict=True)}
        steps = (chain.settings.epochs or ROUNDS) * plan.round_steps
        setting = {
            "conversations": plan.conversations,
            "log": LOG,
            "emotion": EMOTION,
            "meaning": chain.settings.encoder,
            "batches": steps,
            "sizes": {
                "batch": plan.batch,
                "batches until the KL divergence counts in full": steps // 2,
                "weight of emotion": HeadOrder.emotion_weight,
                "weight of meaning": HEAD_DEFAULTS[ABLATED].meaning_weight,
                "units of the emotion head": HEAD_UNITS,
                "units of the meaning head": HEAD_UNITS,
            },
            "preset": chain.settings.preset,
            "encoders": dict(encoders.details),
            "hybrid": {"conversations": people.conversations, "bots": people.bots} if people else None,
        }
        return cls(trained=trained, talks=talks, figures=figures, people=people, setting=setting)

    @property
    def seed_count(self) -> int:
        """The number of seeds."""
        return len({network.seed for network in self.trained})

    def values(self, variant: Variant, figure: str) -> dict[int, float]:
        """Return a figure of a variant, by seed."""
        own = [network for network in self.trained if network.variant == variant]
        return {network.seed: self.figures[network.name][figure] for network in own}

    def estimate(self, variant: Variant, figure: str) -> IntervalEstimate:
        """Return the mean of a figure over seeds, with its interval."""
        return over_seeds(list(self.values(variant, figure).values()))

    def difference(self, variant: Variant, base: Variant, figure: str) -> IntervalEstimate:
        """Return the mean difference over seeds, with its interval."""
        values, of_base = self.values(variant, figure), self.values(base, figure)
        return over_seeds([values[seed] - of_base[seed] for seed in values.keys() & of_base.keys()])

    def states(self, variant: Variant) -> list[str]:
        """Return what became of the latent variable of turns, by seed."""
        return [network.report["latent"] for network in self.trained if network.variant == variant]

    def as_json(self, variant: Variant, columns: Sequence[str]) -> dict[str, object]:
        """Return all figures of a variant, with those of each seed."""
        own = [network for network in self.trained if network.variant == variant]
        return {
            "figures": {figure: self.estimate(variant, figure).as_json() for figure in columns},
            "seeds": {
                str(network.seed): {figure: _rounded(self.figures[network.name][figure]) for figure in columns}
                for network in own
            },
            "latent": self.states(variant),
            "latent_conversation": [network.report.get("latent_conversation", "none") for network in own],
            "heads": [network.report.get("heads", {}) for network in own],
            "teachers": own[0].report.get("teachers", {}) if own else {},
            "parameters": own[0].report["parameters"] if own else 0,
            "ended_early": sum(self.talks[network.name].ended_early for network in own),
        }

    def claims(self) -> dict[str, dict[str, Any]]:
        """Return what each claim is here, network by network."""
        claims = dict[str, dict[str, Any]]()
        for claim, figure, way in _CLAIMS:
            if figure == HYBRID and self.people is None:
                continue
            of_pair = {name: self.difference(*_PAIRS[name], figure) for name in _EI_PAIRS}
            claims[claim] = {
                name: {**difference.as_json(), "verdict": _verdict(difference, way)}
                for name, difference in of_pair.items()
            }
        return claims


def _seeds(chain: Chain) -> range:
    return range(chain.settings.seed, chain.settings.seed + min(SEEDS, chain.settings.seeds))


def over_seeds(values: Sequence[float]) -> IntervalEstimate:
    """Return the mean of values, one for each seed, with the interval of Student's t; of one value none."""
    defined = np.array([number for number in values if math.isfinite(number)], np.float64)
    if not len(defined):
        return IntervalEstimate(why="not defined" if values else "not run")
    mean = float(defined.mean())
    if len(defined) < 2:
        return IntervalEstimate(value=mean)
    half = float(stats.t.ppf((1 + _LEVEL) / 2, len(defined) - 1) * defined.std(ddof=1) / math.sqrt(len(defined)))
    return IntervalEstimate(value=mean, low=mean - half, high=mean + half)


def _figures(network: TrainedVariant, talk: SelfTalk, hybrid: float) -> Figures:
    report = network.report
    return {
        PERPLEXITY: math.exp(report["validation_loss"]),
        "kl": report["kl"],
        "kl_conversation": report.get("kl_conversation", math.nan),
        "discrimination": report["discrimination"],
        "nats over unigrams": report["unigram_nll"] - report["validation_loss"],
        **{name: talk.figures[name] for name in _OF_REPLIES},
        **{name: talk.mean(name) for name in _OF_TALK},
        HYBRID: hybrid,
    }


def _rounded(figure: float) -> float | None:
    return round(figure, 4) if math.isfinite(figure) else None


def _verdict(difference: IntervalEstimate, way: str) -> str:
    if difference.value is None:
        return "not run"
    if not difference.is_sure:
        return "not shown"
    return "shown" if ((difference.low or 0) > 0) is (way == _HIGHER) else "refuted"


def _sections(compared: _Compared, columns: Sequence[str], claims: Mapping[str, Mapping[str, Any]]) -> list[Section]:
    return [
        Section(
            title="The six networks",
            text=(
                f"Means over {compared.seed_count} seeds at most, with t-intervals of 95 %. Perplexity is e to the "
                "bound on a piece or end of a turn; KL is in nats a turn, or a window of ten turns. Self-play is "
                f"{compared.setting['conversations']} conversations of {RULES.turns} turns of a bot with itself, "
                f"from nothing, by beam search of {WRITING.beams} drawn by rank, as published; overlap is the per cent "
                "of pairs of conversations that share three or five utterances in a row.",
            ),
            tables=_tables(compared, SIX, columns, "Six networks"),
        ),
        Section(
            title="What emotion and meaning add, and controls",
            text=(
                f"The same of {ABLATED.upper()}; input only: the context hears what heads predict of a turn, and their "
                "losses do not shape it. In the controls the emotions are those of other turns, or the meanings are "
                "drawn numbers of the same spread: what they do is no effect of emotion or meaning.",
            ),
            tables=_tables(
                compared, (SIX[2], SIX[3], *ABLATIONS, INPUT_ONLY, *CONTROLS), columns, "Ablations and controls"
            ),
        ),
        Section(
            title="Differences",
            text=("Paired by seed: networks of one seed hold the same dialogues out.",),
            tables=[_differences_table(compared, columns), _heads_table(compared)],
        ),
        Section(title="Claims", tables=[_claims_table(claims)]),
    ]


# ── Tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tables(compared: _Compared, variants: Sequence[Variant], columns: Sequence[str], title: str) -> list[Table]:
    of_training = [name for name in columns if name in _OF_TRAINING]
    of_replies = [name for name in columns if name not in _OF_TRAINING]
    return [
        _table(compared, variants, of_training, f"{title}: held-out turns"),
        _table(compared, variants, of_replies, f"{title}: self-play"),
    ]


def _table(compared: _Compared, variants: Sequence[Variant], columns: Sequence[str], title: str) -> Table:
    rows = [[variant.name, *(cell(compared.estimate(variant, figure)) for figure in columns)] for variant in variants]
    return Table(title=title, columns=("network", *(name.replace("_", " ") for name in columns)), rows=rows)


def _differences_table(compared: _Compared, columns: Sequence[str]) -> Table:
    return Table(
        title="Differences over seeds",
        columns=("networks", *(name.replace("_", " ") for name in columns)),
        rows=[
            [name, *(cell(compared.difference(*pair, figure)) for figure in columns)] for name, pair in _PAIRS.items()
        ],
        notes=("an interval that holds 0 shows nothing",),
    )


def _heads_table(compared: _Compared) -> Table:
    """Return how much the heads have learned: their losses beside those of always saying the mean."""
    rows = []
    for network in compared.trained:
        for head, losses in network.report.get("heads", {}).items():
            rows.append([network.name, head, f"{losses['loss']:.5f}", f"{losses['constant_loss']:.5f}"])
    return Table(
        title="Held-out losses of heads",
        columns=("network and seed", "head", "loss", "of always saying the mean"),
        rows=rows,
        notes=("emotion: cross-entropy in nats; meaning: mean squared error of a number",),
    )


def _claims_table(claims: Mapping[str, Mapping[str, Any]]) -> Table:
    return Table(
        title="What is claimed of EI, and the difference that it makes here",
        columns=("claim", *(name.partition(" ")[0] for name in _EI_PAIRS)),
        rows=[
            [claim, *(f"{_numbers(of_pair[name])} {of_pair[name]['verdict']}" for name in _EI_PAIRS)]
            for claim, of_pair in claims.items()
        ],
    )


def _numbers(figures: Mapping[str, Any]) -> str:
    return cell(IntervalEstimate(**{key: figures.get(key) for key in ("value", "low", "high", "why")}))


# ── In words ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _summary(compared: _Compared, claims: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for variant in SIX:
        states = ", ".join(sorted(set(compared.states(variant)))) or "not run"
        yield (
            f"{variant.name}: perplexity {cell(compared.estimate(variant, PERPLEXITY))}, latent variable of turns: "
            f"{states}"
        )
    for head in ("emotion", "meaning"):
        learned = [losses[head] for network in compared.trained if head in (losses := network.report.get("heads", {}))]
        better = sum(loss["loss"] < loss["constant_loss"] for loss in learned)
        yield f"heads of {head} predict held-out turns better than always saying the mean: {better} of {len(learned)}"
    for claim, of_pair in claims.items():
        verdicts = ", ".join(f"{name.partition(' ')[0]} {of_pair[name]['verdict']}" for name in _EI_PAIRS)
        yield f"{claim}: {verdicts}"


def _notes(compared: _Compared) -> Iterator[str]:
    yield (
        "why figures differ from those published: one small log in place of Cornell's films and Reddit, networks of "
        "some hundred units in place of a thousand, minutes of training, perplexity of pieces in place of words, VADER "
        "in place of DeepMoji and a small encoder in place of InferSent, equal drop of words and turns with and "
        "without EI, and no person who rates"
    )
    if compared.people is None:
        yield "the data has no rated conversations: no hybrid metric"
    seeds = {variant.name: len(compared.values(variant, PERPLEXITY)) for variant in VARIANTS}
    if lacking := ", ".join(f"{name} {count}" for name, count in seeds.items() if count < SEEDS):
        yield f"fewer than {SEEDS} seeds were run of {lacking}: without two, a figure has no interval"
