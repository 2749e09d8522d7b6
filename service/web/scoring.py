"""What POST /v1/scores asks for, decided; and the scoring itself, which runs in the executor."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.errors import Expired, Interrupted, TooLarge, Usage
from core.items import BadItem
from core.records import Item
from metrics.base import Metric
from service.asked_metrics import Wants, default_metric, lacking_b, metrics_of
from service.augment import AugmentSettings
from service.engine import Lease
from service.evaluate import evaluate
from service.job_kinds.sources import metrics_within
from service.ruber_scores import Named, Opened, with_parts
from service.scores import Evaluation, ScoreSettings, percent
from service.serve_settings import ServeSettings
from service.settings import Settings
from service.web.finding import Made
from service.web.schemas.common import RetrievalIn
from service.web.schemas.scoring import ResamplingIn, ScoresIn
from service.web.state import State

# A queue item is one item found and rated, which takes milliseconds; a score takes about a fiftieth of one, and one
# that a network is asked for about a tenth.
_SCORES_AN_ITEM: Final = 50
_JUDGED: Final = 5
_ROWS_AN_ITEM: Final = 500  # rows of sums that are read and added in that time
_DRAWN_AN_ITEM: Final = 500_000  # rows that a bootstrap adds up in that time
_EXPLAINED: Final = 16  # times as many scores: one without each of so many references
_FOUND_BY_DEFAULT: Final = "upsilon-bleu"


# ── what is asked ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A request with its defaults filled in, as far as they do not depend on its items."""

    specifications: tuple[str, ...]  # none: what the items call for
    finds: bool
    asks_rater: bool
    judged: int  # of the specifications: those that ask a network about every reply
    asks_index: tuple[str, ...]  # those for which the index may have to be measured first
    reads: bool  # whether something may have to be read or drawn first that the server does not hold
    ruber: str | None
    sample: str | None
    augmenting: AugmentSettings
    scoring: ScoreSettings
    language: str | None
    percent: bool
    is_part: bool  # sums, which others are put to

    @classmethod
    def of(cls, asked: ScoresIn, home: Settings, serve: ServeSettings) -> Plan:
        """Decide; Usage where something is missing, or was said that nothing looks at."""
        specifications = tuple(asked.metrics or ())
        if len(specifications) > serve.metrics:
            raise TooLarge(
                f"{len(specifications):,} metrics are more than the {serve.metrics:,} of one request",
                remedy="send the items again with the others",
            )
        specifications = metrics_within(specifications, home, serve)
        wants = [Wants.of(text) for text in specifications]
        finds = asked.references == "find" or (
            asked.references is None and (asked.index is not None or any(one.weighted for one in wants))
        )
        settings = asked.settings or RetrievalIn()
        chosen = specifications or ((_FOUND_BY_DEFAULT,) if finds else ())
        plan = cls(
            specifications=chosen,
            finds=finds,
            asks_rater=any(one.rater or one.weigher for one in wants),
            judged=sum(one.rater or one.ruber for one in wants),
            asks_index=tuple(one for one in chosen if Wants.of(one).base) if finds else (),
            reads=any(one.ruber or one.sample for one in wants),
            ruber=asked.ruber,
            sample=asked.sample,
            augmenting=settings.settings(rates=any(one.rater or one.weigher for one in wants)),
            scoring=score_settings(asked, serve, explain=asked.explain),
            language=asked.language,
            percent=asked.percent,
            is_part=asked.return_ == "stats",
        )
        plan.require_all(wants)
        plan.require_used(asked, wants)
        return plan

    @property
    def needs_rater(self) -> bool:
        """Whether a rater is asked about anything."""
        return self.asks_rater or (self.finds and self.augmenting.needs_rater)

    def require_all(self, wants: Sequence[Wants]) -> None:
        """Usage where a metric asks somebody who is not named."""
        for one in wants:
            if one.ruber and self.ruber is None:
                raise Usage(f"{one.name} needs a ruber, and none is named", remedy='"ruber": "NAME"')
            if one.sample and self.sample is None and not self.finds:
                raise Usage(
                    f"{one.name} needs an index, to see what its parts give to replies of a log, and none is named",
                    remedy='"sample": "NAME", or norm=none in the metric',
                )

    def require_used(self, asked: ScoresIn, wants: Sequence[Wants]) -> None:
        """Usage where something was said that changes nothing."""
        if asked.ruber is not None and not any(one.ruber for one in wants):
            raise Usage('"ruber" without a metric that asks it', remedy='"metrics": ["ruber"], or leave it out')
        if asked.sample is not None and not any(one.sample for one in wants):
            raise Usage('"sample" without a metric that looks at it', remedy='"metrics": ["ruber"], or leave it out')
        if asked.rater is not None and not self.needs_rater:
            raise Usage('"rater", and nothing is to be rated', remedy="leave it out, or ask for rated weights")
        if asked.return_ == "stats":
            said = {"draws": asked.draws, "explain": asked.explain, "percent": asked.percent}
            if name := next((name for name, value in said.items() if value), None):
                raise Usage(f'"{name}" with "return": "stats"', remedy="leave one of the two out")
        if self.finds:
            if wants and not any(one.weighted or (one.sample and self.sample is None) for one in wants):
                raise Usage(
                    "references would be found, and no metric looks at weighted references",
                    remedy='leave "index" and "references" out, or name a metric upsilon-…',
                )
            return
        if asked.index is not None:
            raise Usage('"index" with "references": "given"', remedy='leave it out, or "references": "find"')
        idle = (asked.settings.model_fields_set if asked.settings is not None else set()) - (
            {"combine", "calibrated"} if self.asks_rater else set()
        )
        if idle:
            raise Usage(
                f"nothing looks at settings.{sorted(idle)[0]} where the references are those given",
                remedy='leave it out, or "references": "find"',
            )


def score_settings(asked: ResamplingIn, serve: ServeSettings, *, explain: bool = False) -> ScoreSettings:
    """What is wanted beside the scores, within the server's limits."""
    if asked.draws > serve.draws:
        raise TooLarge(
            f"{asked.draws:,} draws are more than the {serve.draws:,} of one request", remedy="ask for fewer draws"
        )
    fields = ResamplingIn.model_fields
    said = [name for name in ("baseline", "confidence", "seed") if getattr(asked, name) != fields[name].default]
    if said and not asked.draws:
        raise Usage(f'"{said[0]}" without "draws"', remedy='"draws": 1000')
    return ScoreSettings(
        draws=asked.draws,
        confidence=asked.confidence,
        seed=asked.seed,
        baseline=asked.baseline,
        explain=explain,
    )


# ── the work ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """The progress of scoring that nobody looks at: it stops the work when its time is over, or nobody waits for it."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.is_given_up = False

    def stage(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Look at the clock."""
        del name, total, unit
        self.advance(0)

    def advance(self, amount: int) -> None:
        """Look at the clock."""
        del amount
        if self.is_given_up:
            raise Interrupted("nobody waits for the scores any more")
        if time.monotonic() > self._deadline:
            raise Expired("the time was over before everything was scored", remedy="ask for more time, or fewer items")

    def warn(self, message: str) -> None:
        """What is said of stored answers is no business of who asks."""
        del message


@dataclass(frozen=True, kw_only=True)
class Work:
    """Items with their references, and all that is needed to score them; to be run in the executor."""

    state: State
    plan: Plan
    items: Sequence[Item]
    bad: Sequence[BadItem]
    lease: Lease
    made: Made | None  # None: the references are those given
    clock: Clock
    versions: dict[str, str] = field(default_factory=dict)  # of what only scoring asks

    @property
    def cost(self) -> int:
        """How many items of the queue it is worth; never more than a quarter of them, or it would never get in."""
        return max(1, min(math.ceil(self._worth), self.state.serve.queue_items // 4))

    @property
    def is_small(self) -> bool:
        """Whether scoring takes no longer than finding the references does, nor than a batch."""
        return not self.is_uncertain and self._worth <= min(len(self.items), self.state.serve.batch_items)

    @property
    def is_uncertain(self) -> bool:
        """Whether something may have to be measured or read first, which takes seconds: nobody else is to wait then."""
        plan, index = self.plan, self.lease.index
        if plan.asks_index and index is not None:
            return plan.reads or not self.state.bases.has_told(index.spec, plan.asks_index, plan.language)
        return plan.reads

    @property
    def _worth(self) -> float:
        """How many items could be found and rated meanwhile."""
        metrics = len(self.plan.specifications) or 1
        scores = (metrics + (_JUDGED - 1) * self.plan.judged) * sum(len(one.replies) for one in self.items)
        each = _EXPLAINED if self.plan.scoring.explain else 1
        return scores * each / _SCORES_AN_ITEM + scores * self.plan.scoring.draws / _DRAWN_AN_ITEM

    def with_references(self, found: Sequence[Item]) -> Work:
        """The same for the items with their references."""
        return replace(self, items=found)

    def run(self) -> Evaluation:
        """Score them."""
        plan, made = self.plan, self.made
        chosen = self._metrics()
        listed: list[Item | BadItem] = [*self.items, *self.bad]
        found = evaluate(
            listed,
            self._bound(chosen),
            plan.scoring,
            provenance=made.by if made is not None else {},
            details=made.details if made is not None else {},
            progress=self.clock,
            is_part=plan.is_part,
        )
        advice = lacking_b(chosen, self.items, '"references": "find" measures b') if made is None else None
        found = replace(found, warnings=(*found.warnings, *([advice] if advice is not None else [])))
        return percent(found) if plan.percent else found

    def _metrics(self) -> list[Metric]:
        plan, rating, index = self.plan, self.plan.augmenting.rating, self.lease.index
        chosen = metrics_of(
            plan.specifications or [default_metric(self.items)],
            plan.language,
            {"combine": rating.combine, "cal": rating.calibration},
            self.state.bases.of(index.spec) if plan.finds and index is not None else None,
        )
        if plan.asks_index and index is not None:
            self.state.bases.note_told(index.spec, plan.asks_index, plan.language)
        if plan.percent and (others := [one for one in chosen if not one.info.is_share]):
            raise Usage(
                f"{others[0].name} is from {others[0].info.range}, which cannot be given in per cent",
                remedy='leave "percent" out',
            )
        return chosen

    def _bound(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Told whom to ask: the rater of the lease, and the ruber that is named."""
        if not any(one.info.needs_rater or one.info.needs_ruber for one in metrics):
            return list(metrics)
        plan, lease = self.plan, self.lease
        ruber = self.state.rubers.get(plan.ruber) if plan.ruber is not None else None
        if ruber is not None:
            self.versions["ruber"] = ruber.spec
        index = lease.index.spec.partition("#")[0] if plan.finds and lease.index is not None else None
        named = Named(
            rater=None if lease.rater is None else lease.rater.spec.partition("#")[0],
            ruber=plan.ruber,
            sample=plan.sample or index,
            threads=self.state.threads,
        )
        opened = Opened(rater=lease.rater, ruber=ruber)
        return with_parts(metrics, self.state.home, named, plan.augmenting, self.clock, opened=opened)


def combining_cost(batches: Sequence[Mapping[str, Any]], settings: ScoreSettings, serve: ServeSettings) -> int:
    """How many items of the queue it is worth to put batches together; what is none of ours is refused quickly."""
    stats = [one for batch in batches for one in _listed(batch.get("stats")) if isinstance(one, Mapping)]
    systems = [one for stat in stats if isinstance(found := stat.get("systems"), Mapping) for one in found.values()]
    rows = sum(len(_listed(one.get("rows"))) for one in systems if isinstance(one, Mapping))
    worth = rows / _ROWS_AN_ITEM + rows * settings.draws / _DRAWN_AN_ITEM
    return max(1, min(math.ceil(worth), serve.queue_items // 4))


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def unscored(found: Evaluation) -> Mapping[str, int]:
    """How many replies have no score, by reason, over all metrics."""
    counts = Counter[str]()
    for one in found.scores:
        for system in one.systems.values():
            counts.update(system.unscored)
    return counts
