"""refaug: how good is a reply when many different replies would have been fine.

The main names:

- `score`: scores of predictions against references, or of the replies in items
- `references`: weighted references from an index
- `Metric`: a metric with its settings.

Nothing heavy is imported before the first use. What is imported then has threads that wait asleep: `passive_waiting`
sets their variables now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refaug.core.processes import passive_waiting as _passive_waiting  # noqa: F401  before any library is loaded
from refaug.core.version import VERSION

if TYPE_CHECKING:
    from refaug.core.errors import BadInput, Conflict, NoGold, NotFound, RefaugError, Usage
    from refaug.library.agreement import meta
    from refaug.library.frozen_sets import OpenSet, open_set, reward, scorer
    from refaug.library.ratings import Ratings, rate
    from refaug.library.results.agreement_table import AgreementTable, MetricAgreement
    from refaug.library.results.referenced_items import ReferencedItem, ReferencedItems, WeightedReference
    from refaug.library.results.scores import ScoredMetric, ScoredReply, Scores, SystemScores
    from refaug.library.retrieval import references
    from refaug.library.scoring import Metric, score

__version__ = VERSION

_MODULES = {
    "AgreementTable": "library.results.agreement_table",
    "BadInput": "core.errors",
    "Conflict": "core.errors",
    "Metric": "library.scoring",
    "MetricAgreement": "library.results.agreement_table",
    "NoGold": "core.errors",
    "NotFound": "core.errors",
    "OpenSet": "library.frozen_sets",
    "Ratings": "library.ratings",
    "RefaugError": "core.errors",
    "ReferencedItem": "library.results.referenced_items",
    "ReferencedItems": "library.results.referenced_items",
    "ScoredMetric": "library.results.scores",
    "ScoredReply": "library.results.scores",
    "SystemScores": "library.results.scores",
    "Scores": "library.results.scores",
    "Usage": "core.errors",
    "WeightedReference": "library.results.referenced_items",
    "meta": "library.agreement",
    "open_set": "library.frozen_sets",
    "rate": "library.ratings",
    "references": "library.retrieval",
    "reward": "library.frozen_sets",
    "score": "library.scoring",
    "scorer": "library.frozen_sets",
}

__all__ = [
    "VERSION",
    "AgreementTable",
    "BadInput",
    "Conflict",
    "Metric",
    "MetricAgreement",
    "NoGold",
    "NotFound",
    "OpenSet",
    "Ratings",
    "RefaugError",
    "ReferencedItem",
    "ReferencedItems",
    "ScoredMetric",
    "ScoredReply",
    "Scores",
    "SystemScores",
    "Usage",
    "WeightedReference",
    "__version__",
    "meta",
    "open_set",
    "rate",
    "references",
    "reward",
    "score",
    "scorer",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    from refaug.core.installation import extras_named  # noqa: PLC0415

    with extras_named():
        exported = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = exported
    return exported


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
