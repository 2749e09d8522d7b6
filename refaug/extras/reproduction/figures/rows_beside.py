"""The rows beside the main table of `reproduce metrics`: metrics after papers of others, by networks of ours.

`masked` and `retrieval` use a cross rater, `next-utterance` a second one, trained with noise, and `followup` the VHRED
of `reproduce networks`. The networks are small and read little, so what a row shows here does not hold for the
metric that was published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, NamedTuple

from refaug.agreement.report.leaderboard import label_of
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import NotFound, RefaugError
from refaug.core.files import read_json
from refaug.extras.judges.follow_up_models import with_networks
from refaug.extras.reproduction.figures.correlations import Line, correlate
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.rated_sets import ProofSet
from refaug.extras.reproduction.material.reference_kinds import line_of
from refaug.extras.reproduction.networks.variants import (
    SIX,
    USUAL,
    TrainingPlan,
    is_trained,
    train_variant,
)
from refaug.extras.reproduction.report.report import about_table, agreement_table, short
from refaug.metrics.specification import Specification, build
from refaug.metrics.statistics.correlation import PARTIAL
from refaug.operations.training import CROSS
from refaug.scoring.metric_setup.model_metrics import with_parts
from refaug.tables.reports.report import Section

KINDS: Final = ("spearman", PARTIAL)
_TURNS: Final = ("turns", "3")  # that a cross rater has learned to read
_LEARNED: Final = {"rater": "auc_good_vs_wrong", "vhred": "discrimination"}  # in the reports of trainings
_TITLE: Final = "Rows beside"


class _Row(NamedTuple):
    """A metric, and the negatives that its cross rater is trained with."""

    metric: str
    negatives: str = ""  # empty for a metric that uses a VHRED

    @property
    def kind(self) -> str:
        """The kind of network that is asked."""
        return "rater" if self.negatives else "vhred"

    def specification(self, network: str) -> Specification:
        """Return the metric with the network by name."""
        parameters = (("model", network), _TURNS) if self.negatives else (("lm", network),)
        return Specification(self.metric, parameters)


_ROWS: Final = (
    _Row("masked", "random"),
    _Row("retrieval", "random"),
    _Row("next-utterance", "noise"),
    _Row("followup"),
)


@dataclass(frozen=True, kw_only=True)
class RowsBeside:
    """The section of these rows, their figures for programs, and which rows are left out."""

    section: Section
    data: Mapping[str, Any]
    gaps: tuple[str, ...]


def rows_beside(chain: Chain, sets: Sequence[ProofSet], plan: TrainingPlan = USUAL) -> RowsBeside:
    """Train what the rows ask, unless the home has it, and correlate them; what cannot be trained is a gap."""
    lines, gaps, minutes = list[Line](), list[str](), chain.settings.minutes
    until = math.inf if minutes is None else perf_counter() + 60 * minutes
    for row in _ROWS:
        try:
            lines.append(_line(chain, sets, row, plan, may_train=perf_counter() < until))
        except RefaugError as error:
            gaps.append(f"{row.metric} is missing: {chain.public_message(error)}")
    text = (
        "Metrics after papers of others, each named by the network of ours that ran. They support no claim that refaug "
        "beats a published metric, nor that it falls behind one: these networks are small and have read little. A row "
        "whose network has learned nothing says nothing.",
        "Which items need more references, after REAM, is no metric of replies: `refaug agreement references` tells.",
    )
    if not lines:
        return RowsBeside(section=Section(title=_TITLE, text=(*text, *gaps)), data={}, gaps=tuple(gaps))
    correlations = correlate(sets, lines, kinds=KINDS, draws=chain.settings.draws, seed=chain.settings.seed)
    tables = [agreement_table(correlations, _TITLE), about_table(lines)]
    return RowsBeside(
        section=Section(title=_TITLE, text=text, tables=tables), data=correlations.as_json(KINDS), gaps=tuple(gaps)
    )


def _line(chain: Chain, sets: Sequence[ProofSet], row: _Row, plan: TrainingPlan, *, may_train: bool) -> Line:
    if row.negatives:
        spec = _rater(chain, row.negatives, may_train=may_train)
    else:
        spec = _vhred(chain, plan, may_train=may_train)
    (metric,) = with_networks(with_parts([build(row.specification(spec))], chain.models), chain.models)
    name, _, version = spec.partition("@")
    report: dict[str, Any] = read_json(artefact_stores(chain.home)[row.kind].folder(name, version) / "report.json")
    about = (
        f"{metric.info.paper}; {spec} tells true replies from wrong ones, on held-out dialogues, at "
        f"{short(report[_LEARNED[row.kind]])}"
    )
    return line_of(label_of(str(row.specification(name))), sets, metric, about=about)


def _rater(chain: Chain, negatives: str, *, may_train: bool) -> str:
    """Return a cross rater as name@version."""
    seed = chain.settings.seed
    if not (may_train or chain.has_carried_rater(CROSS, seed, negatives)):
        raise _not_trained(f"a cross rater with {negatives} negatives")
    return chain.carried_rater(CROSS, seed, negatives).spec.partition("#")[0]


def _vhred(chain: Chain, plan: TrainingPlan, *, may_train: bool) -> str:
    """Return the VHRED without heads as name@version."""
    variant, seed = SIX[2], chain.settings.seed
    if not (may_train or is_trained(chain, variant, seed, plan)):
        raise _not_trained("the VHRED of `reproduce networks`")
    return train_variant(chain, variant, seed, plan).spec


def _not_trained(network: str) -> NotFound:
    return NotFound(f"{network} is not trained", remedy="give it more minutes: --minutes")
