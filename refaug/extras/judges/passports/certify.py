"""From labels by people to a passport: what a judge is worth, what moves it, and what references add."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import Any, Final

import numpy as np
import orjson

from refaug.agreement.records import ComparedMetric, RatedItems
from refaug.agreement.row_scores import lengths_of_rows, values_of_rows
from refaug.agreement.rows import RatedRows, Row
from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.core.errors import BadInput, Conflict, RefaugError, Unavailable
from refaug.core.progress import Progress
from refaug.core.records import Item, Origin, json_form
from refaug.core.text.normalisation import normalise
from refaug.extras.judges.language_models.asking import Asking
from refaug.extras.judges.language_models.pairwise import PairwiseJudge
from refaug.extras.judges.language_models.pointwise import PointwiseJudge, sampling_of
from refaug.extras.judges.language_models.rubric import Rubric
from refaug.extras.judges.metrics.judged_replies import JudgedReplies, JudgeQuestion
from refaug.extras.judges.passports.binding import Binding
from refaug.extras.judges.passports.probes import (
    BLOCKING,
    ProbedReply,
    ProbeFinding,
    drift_finding,
    family_of,
    probe_judge,
    self_finding,
)
from refaug.extras.judges.passports.validity import CANARIES, CertifiedSpread, names_weights, question_json
from refaug.extras.judges.passports.worth import LabelledReplies, added_by_references, agreement_figures, ceiling
from refaug.metrics.base import Floats, References
from refaug.metrics.statistics.label_maps import map_figures
from refaug.metrics.statistics.resampling import Estimate, Labels
from refaug.scoring.cases import references_for
from refaug.scoring.settings import MetaSettings

FEWEST_LABELS: Final = 50
FEWEST_CONTEXTS: Final = 20
NONE: Final = "none"
SHUFFLED: Final = "shuffled"
_ID_DIGITS: Final = 40

MetricOf = Callable[[str], JudgedReplies]  # by its setting of refs


@dataclass(frozen=True, kw_only=True)
class CertifyOrder:
    """What is measured, and what the judge has to reach."""

    least: float = 0.2  # that the interval of its agreement has to lie above
    most: int = 100  # contexts that are probed
    own: Mapping[str, bool] = field(default_factory=dict)  # systems of known family: whether it is the judge's
    trained_on: Sequence[Item] = ()
    after: Sequence[str] = ()  # passports that there are: a judge that cannot be told from another is asked anew
    draws: int = 2_000
    seed: int = 1


def certify(
    rated_items: RatedItems,
    asking: Asking,
    rubric: Rubric,
    metric_of: MetricOf,
    refs: str,
    order: CertifyOrder,
    progress: Progress,
    *,
    beside: Mapping[str, Callable[[RatedRows], Floats]] | None = None,
) -> dict[str, Any]:
    """Return the figures of a passport; answers are stored as they come, so that the same call goes on where it was.

    `beside` are other metrics by name, each with what scores rows, or with why it cannot.
    """
    rows = RatedRows.of(rated_items, MetaSettings())
    contexts = context_numbers(rows.items)
    places = np.flatnonzero(rows.is_candidate)
    labelled = LabelledReplies(
        ratings=rows.ratings[places],
        contexts=contexts[rows.contexts[places]],
        lengths=lengths_of_rows(rows)[places],
    )
    _require_labels(rated_items.name, rows.items, labelled, order.trained_on)
    run = _CertifyRun(rows=rows, places=places, asking=asking, rubric=rubric, metric_of=metric_of, progress=progress)
    run.find_version(order.after)

    ways = _ways(rows.items, refs)
    scores = {way: run.scores_of_way(way, order.seed) for way in ways}
    main, judge = scores[refs], run.judge(metric_of(refs), "")
    _require_scored(rated_items.name, main, run)
    noise = run.scores(refs, "again ") - main
    probed = _probed_replies(run.questions(refs), labelled, order)
    findings = probe_judge(judge, PairwiseJudge(asking, rubric, occasion=run.occasion), rubric, probed, noise)
    systems = [rows.rows[place].system for place in places.tolist()]
    if order.own:
        findings.append(self_finding(main + noise / 2, labelled.ratings, labelled.contexts, systems, order.own))
    findings = family_of([*findings, drift_finding(noise, labelled.contexts)])
    run.require_one_version(judge)
    unmeasured = _unmeasured(findings)
    _require_answers(rated_items.name, unmeasured, run)

    agreement = agreement_figures(main, labelled, draws=order.draws, seed=order.seed)
    needed = "kappa" if labelled.is_pass_or_fail else "given_length"
    why_not = [*_too_low(agreement[needed], needed, order.least), *unmeasured, *_blocked(findings)]
    canary, spread = _keep_canary(run, refs), CertifiedSpread.of(noise)
    has_score = np.isfinite(main)
    return {
        "judge": asking.endpoint.name,
        "binding": Binding.of(asking.endpoint, rubric, metric_of(refs).settings).as_json(),
        "answered_by": {"name": run.version, "fingerprint": run.fingerprint},
        "certified": not why_not,
        "why_not": why_not,
        "least": {"figure": needed, "above": order.least},
        "labels": int(has_score.sum()),
        "unscored": int((~has_score).sum()),
        "contexts": len(np.unique(labelled.contexts[has_score])),
        "agreement": {name: json_form(figure) for name, figure in agreement.items()},
        "ceiling": ceiling(labelled),
        "beside": _beside(beside or {}, rows, places, labelled, order),
        "probes": [finding.as_json() for finding in findings],
        "spread": {"answers": spread.differences / sqrt(2), **asdict(spread)},
        "references": added_by_references(scores, labelled, draws=order.draws, seed=order.seed),
        "calibration": {
            name: json_form(figures)
            for name, figures in map_figures(
                main[has_score],
                labelled.means[has_score],
                labelled.contexts[has_score],
                labelled.scale,
                seed=order.seed,
            ).items()
        },
        **({"criteria_first": dict(judge.first_criteria)} if len(rubric.criteria) > 1 else {}),
        "canary": canary,
        "judge_seed": sampling_of(metric_of(refs).settings).seed,
        "seed": order.seed,
        "draws": order.draws,
    }


# ── What cannot be certified ──────────────────────────────────────────────────────────────────────────────────────────


def context_numbers(items: Sequence[Item]) -> Labels:
    """Return a number for each item; items with the same turns are one context."""
    return np.asarray(np.unique([_context_key(item) for item in items], return_inverse=True)[1])


def _context_key(item: Item) -> str:
    return "\x1e".join(map(normalise, item.turns)) or item.id


def _require_labels(name: str, items: Sequence[Item], labelled: LabelledReplies, trained_on: Sequence[Item]) -> None:
    count, contexts = len(labelled.ratings), len(np.unique(labelled.contexts))
    if count < FEWEST_LABELS:
        raise BadInput(
            f"{name}: {count} replies have labels by people; below {FEWEST_LABELS} a passport certifies nothing",
            remedy=f"have people rate at least {FEWEST_LABELS - count} more",
        )
    if contexts < FEWEST_CONTEXTS:
        raise BadInput(
            f"{name}: the {count} labels are of {contexts} contexts, and replies to one context are not independent",
            remedy=f"labels in at least {FEWEST_CONTEXTS} contexts",
        )
    if labelled.scale[0] == labelled.scale[1] or (labelled.is_pass_or_fail and len(np.unique(labelled.passed)) == 1):
        raise BadInput(
            f"{name}: all {count} replies have the same label, so no judge can agree with it or not",
            remedy="labels of both classes, or grades that differ",
        )
    seen = {_context_key(item): item.id for item in trained_on}
    for item in items:
        if (other := seen.get(_context_key(item))) is not None and item.ratings:
            raise BadInput(
                f"{name}: item {item.id} has the context of {other}, which the judge was trained on",
                remedy="labels in contexts that the judge has not seen",
            )


def _require_scored(name: str, scores: Floats, run: _CertifyRun) -> None:
    scored = int(np.isfinite(scores).sum())
    if scored < FEWEST_LABELS:
        faults = "".join(f"; {message}" for message, _ in run.asking.faults.most_common(1))
        raise BadInput(
            f"{name}: the judge scored {scored} of {len(scores)} replies with labels; below {FEWEST_LABELS} a passport "
            f"certifies nothing{faults}",
            remedy="refaug judge check JUDGE shows what it answers; answers so far are stored",
        )


def _too_low(agreement: Estimate, name: str, least: float) -> list[str]:
    if agreement.low is None:
        return [f"{name} is not defined: {agreement.why}"]
    if agreement.low <= least:
        return [f"the interval of {name} begins at {agreement.low:.3f}, not above {least:g}"]
    return []


def _unmeasured(findings: Sequence[ProbeFinding]) -> list[str]:
    """Return which blocking probes have too few scores to find anything: none of these says that all is well."""
    return [
        f"probe {finding.name}: {finding.items} of its questions have a score, and below {FEWEST_CONTEXTS} it shows "
        "nothing"
        for finding in findings
        if finding.name in BLOCKING and (finding.p is None or finding.items < FEWEST_CONTEXTS)
    ]


def _require_answers(name: str, unmeasured: Sequence[str], run: _CertifyRun) -> None:
    """Raise Unavailable where a probe lacks scores, and questions went without an answer."""
    if unmeasured and run.asking.faults:
        message, _ = run.asking.faults.most_common(1)[0]
        raise Unavailable(
            f"{name}: {unmeasured[0]}; {run.asking.faults.total():,} questions without an answer, such as: {message}",
            remedy="the same command, once the judge answers: it goes on from the stored answers",
        )


def _blocked(findings: Sequence[ProbeFinding]) -> list[str]:
    return [
        f"probe {finding.name}: {finding.effect.value:+.3f}"
        for finding in findings
        if finding.is_found and finding.name in BLOCKING
    ]


# ── Asking ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class _CertifyRun:
    """One judge asked about the rows of one set, as long as it stays the same version."""

    rows: RatedRows
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    asking: Asking
    rubric: Rubric
    metric_of: MetricOf
    progress: Progress
    version: str = ""
    fingerprint: str = ""
    occasion: str = ""

    def find_version(self, after: Sequence[str]) -> None:
        """Ask one question without the store: who answers now decides which stored answers count."""
        question = next((one for one in self.questions(NONE) if one is not None), None)
        if question is None:
            raise BadInput(f"{self.rows.name}: no item has an utterance", remedy="items with turns")
        asking = replace(self.asking, answers=None)
        asking.spending = self.asking.spending
        judge = PointwiseJudge(asking, self.rubric, sampling_of(self.metric_of(NONE).settings))
        [judgement] = judge.judge_replies([question])
        if not judge.answered_by:
            message = judgement.problem.message if judgement.problem else "no answer"
            raise Unavailable(f"{asking.endpoint.name}: {message}", remedy="refaug judge check JUDGE")
        self.version = self.asking.version = next(iter(judge.answered_by))
        self.fingerprint = judge.settings["fingerprint"].removesuffix("none") if len(judge.answered_by) == 1 else ""
        self.occasion = "" if names_weights(self.fingerprint) else "".join(f"after {spec} " for spec in after)

    def judge(self, metric: JudgedReplies, why: str) -> PointwiseJudge:
        """Return the judge as the metric asks it, on the occasion of a certification."""
        sampling = sampling_of(metric.settings, f"certify {self.occasion}{why}")
        return PointwiseJudge(self.asking, self.rubric, replace(sampling, repeat=0))

    def scores(self, refs: str, why: str, rows: RatedRows | None = None) -> Floats:
        """Return the scores of the rows with labels, NaN where there is none."""
        metric = self.metric_of(refs)
        judge = self.judge(metric, why)
        compared = ComparedMetric(name="judge", metric=metric.with_judge(judge))
        values = values_of_rows(rows or self.rows, compared, self.progress)
        self.require_one_version(judge)
        return values[self.places]

    def scores_of_way(self, way: str, seed: int) -> Floats:
        """Return the scores with a way of showing references; shuffled ones are those of another item."""
        if way != SHUFFLED:
            return self.scores(way, "")
        order = np.random.default_rng(seed).permutation(len(self.rows.items)).tolist()
        others = dict(zip(order, [*order[1:], order[0]], strict=True))
        items = [
            replace(item, references=self.rows.items[others[place]].references)
            for place, item in enumerate(self.rows.items)
        ]
        rows = [replace(row, references=items[row.item].references) for row in self.rows.rows]
        return self.scores(shown_when_shuffled(self.rows.items), "", replace(self.rows, items=items, rows=rows))

    def questions(self, refs: str) -> list[JudgeQuestion | None]:
        """Return the question about each row with a label, None where there is none."""
        metric = self.metric_of(refs)
        return [_question(metric, self.rows.rows[place], self.rows.items) for place in self.places.tolist()]

    def require_one_version(self, judge: PointwiseJudge) -> None:
        """Raise Conflict where another version than at the beginning has answered."""
        answered = judge.answered_by
        if set(answered) - {self.version}:
            counts = Counter(answered)
            listed = ", ".join(f"{name} {count:,} times" for name, count in counts.most_common())
            raise Conflict(
                f"{self.asking.endpoint.name} changed its version while it was certified: it began as {self.version}, "
                f"and these answered: {listed}",
                remedy="certify it again: answers so far are stored, and count as long as their version answers",
            )


def _question(metric: JudgedReplies, row: Row, items: Sequence[Item]) -> JudgeQuestion | None:
    references = references_for(metric, row.references, items[row.item].turns)
    context = metric.context_of(references) if isinstance(references, References) else None
    if context is None or not row.reply.strip():
        return None
    return JudgeQuestion(turns=context[0], reply=row.reply, evidence=context[1])


def _ways(items: Sequence[Item], refs: str) -> list[str]:
    """Return the ways of showing references that these items allow; without any comes first."""
    sources = {reference.source for item in items for reference in item.references}
    ways = [NONE, *(["gold"] if Origin.GOLD in sources else [])]
    ways += ["weighted"] if Origin.RETRIEVED in sources else []
    if refs not in ways:
        raise BadInput(f"no item has references for refs={refs}", remedy="refaug sets references, or another refs")
    return [*ways, SHUFFLED] if len(ways) > 1 else ways


def shown_when_shuffled(items: Sequence[Item]) -> str:
    """Return which references of other items are shown: retrieved ones where there are some, else golds."""
    is_retrieved = any(reference.source is Origin.RETRIEVED for item in items for reference in item.references)
    return "weighted" if is_retrieved else "gold"


def _probed_replies(
    questions: Sequence[JudgeQuestion | None], labelled: LabelledReplies, order: CertifyOrder
) -> list[ProbedReply]:
    """Return a reply for each of some contexts: of medium rating, so that it can be rated better and worse."""
    middle = sum(labelled.scale) / 2
    by_context = dict[int, list[int]]()
    for place, context in enumerate(labelled.contexts.tolist()):
        if questions[place] is not None:
            by_context.setdefault(context, []).append(place)
    chosen = np.random.default_rng(order.seed).permutation(sorted(by_context))[: order.most].tolist()
    probed = list[ProbedReply]()
    for context in chosen:
        places, means = by_context[context], labelled.means
        medium = questions[min(places, key=lambda place: abs(means[place] - middle))]
        best = questions[max(places, key=lambda place: means[place])]
        assert medium is not None
        assert best is not None
        probed.append(ProbedReply(context=context, question=medium, best=best))
    return probed


def _keep_canary(run: _CertifyRun, refs: str) -> list[dict[str, Any]]:
    """Keep some questions in the home, and return their ids with the scores of their stored answers."""
    known = {
        hashlib.sha256(orjson.dumps(question_json(question))).hexdigest()[:_ID_DIGITS]: question
        for question in run.questions(refs)
        if question is not None
    }
    names = sorted(known)
    judgements = run.judge(run.metric_of(refs), "").judge_replies([known[name] for name in names])
    scored = [(name, one.score) for name, one in zip(names, judgements, strict=True) if one.score is not None]
    kept = scored[:CANARIES]
    if run.asking.answers is not None:
        with AnswerStore(run.asking.answers) as store:
            store.put_questions({name: question_json(known[name]) for name, _ in kept})
    return [{"id": name, "score": score} for name, score in kept]


def _beside(
    beside: Mapping[str, Callable[[RatedRows], Floats]],
    rows: RatedRows,
    places: np.ndarray[tuple[int], np.dtype[np.int64]],
    labelled: LabelledReplies,
    order: CertifyOrder,
) -> dict[str, Any]:
    """Return Spearman of other metrics, or why there is none."""
    figures = dict[str, Any]()
    for name, scored in beside.items():
        try:
            values = scored(rows)[places]
        except RefaugError as error:  # it lacks its encoder, or another one found the references
            figures[name] = {"why": error.message}
            continue
        figures[name] = json_form(agreement_figures(values, labelled, draws=order.draws, seed=order.seed)["spearman"])
    return figures
