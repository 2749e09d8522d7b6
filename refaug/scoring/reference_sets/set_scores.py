"""Scores against a frozen reference set, and the weights and sources that they rest on."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from refaug.core.errors import BadInput, Usage
from refaug.core.progress import Progress, Silent
from refaug.core.records import Item
from refaug.metrics.base import Metric
from refaug.metrics.upsilon import Upsilon
from refaug.scoring.cases import evidence_of, require_references
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import BadItem
from refaug.scoring.reference_sets.reference_set import NO_LINE, ReferenceSet, SetManifest, describe_bad
from refaug.scoring.scores import Evaluation
from refaug.scoring.settings import ScoreSettings

BIN_EDGES: Final = tuple(edge / 5 for edge in range(-4, 5))  # ten bins from -1 to 1, each with its lower edge


def join(
    frozen_set: ReferenceSet,
    replies: Iterable[Item | BadItem],
    called: str = "replies",
    progress: Progress | None = None,
) -> list[Item | BadItem]:
    """Return the bad items, then all items of the set in its order, with the replies to them.

    Only ids and replies of `replies` are used, and what made the replies. Items without any reply stay, so that every
    file of replies is scored on the same items.
    """
    bad, replies_of = list[BadItem](), dict[str, Item]()
    for with_replies in replies:
        if isinstance(with_replies, Item) and with_replies.id not in replies_of:
            replies_of[with_replies.id] = with_replies
        elif isinstance(with_replies, Item):
            message = f"{with_replies.id!r} was used before: every item has an id of its own"
            bad.append(BadItem(file=called, line=NO_LINE, item=with_replies.id, field="id", message=message))
        else:
            bad.append(with_replies)
    items, progress = list[Item](), progress or Silent()
    for frozen_item in frozen_set.items():
        progress.advance(1)
        items.append(_with_replies(frozen_item, replies_of.pop(frozen_item.id, None)))
    message = f"the set {frozen_set.id} has no item of this id"
    bad += [BadItem(file=called, line=NO_LINE, item=name, field="id", message=message) for name in replies_of]
    if not any(item.replies for item in items):
        first = f": {describe_bad(bad[0])}" if bad else ""
        raise BadInput(
            f"no reply is to an item of the set {frozen_set.id}{first}",
            remedy='every item needs the id that it has in the set, and "replies": {"system": "its reply"}',
        )
    return [*bad, *items]


def _with_replies(frozen_item: Item, replies: Item | None) -> Item:
    if replies is None:
        return replace(frozen_item, replies={})
    return replace(frozen_item, replies=replies.replies, reply_provenance=replies.reply_provenance)


def score(
    frozen_set: ReferenceSet,
    joined: Iterable[Item | BadItem],
    metrics: Sequence[Metric],
    settings: ScoreSettings | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score the items that `join` returned; signatures say how the references of the set were made.

    Metrics that ask models are bound to them: their signatures name the versions. A weighted form without b is
    refused, where the index of the set's references would have a b.
    """
    require_b(frozen_set.manifest, metrics)
    manifest, joined = frozen_set.manifest, list(joined)
    for metric in metrics:
        require_references([joined_item for joined_item in joined if isinstance(joined_item, Item)], metric)
    return evaluate(joined, metrics, settings, provenance=manifest.references_provenance, progress=progress)


def require_b(manifest: SetManifest, metrics: Sequence[Metric]) -> None:
    """Refuse a weighted form without b: references of an index need its b, and a b of 0 would give another score."""
    index = manifest.provenance.get("index", "").partition("#")[0]
    lacking = next((metric.name for metric in metrics if isinstance(metric, Upsilon) and metric.b_is_open), None)
    if index and lacking is not None:
        raise Usage(
            f"{lacking} has no b, and a frozen set has no index to measure it with",
            remedy=f"{lacking}:b=…, the number that signatures of scores with references of that index have, and that "
            f"is printed by: refaug score metrics baseline {lacking} --index {index}; or {lacking}:b=0",
        )


@dataclass(frozen=True, kw_only=True)
class SetEvidence:
    """The weights and sources that scores against a set rest on, without golds."""

    weights: tuple[int, ...]  # in ten bins from -1 to 1
    thin: int  # items with few references of positive weight
    sources: Mapping[str, int]


def evidence(frozen_set: ReferenceSet) -> SetEvidence:
    """Collect the evidence from all items of a set."""
    bins, sources, thin = [0] * (len(BIN_EDGES) + 1), Counter[str](), 0
    for frozen_item in frozen_set.items():
        item_evidence = evidence_of(frozen_item)
        thin += item_evidence["thin"]
        sources.update(item_evidence["sources"])
        for weight in item_evidence["weights"]:
            if weight is not None:
                bins[bisect_right(BIN_EDGES, weight)] += 1
    return SetEvidence(weights=tuple(bins), thin=thin, sources=dict(sorted(sources.items())))
