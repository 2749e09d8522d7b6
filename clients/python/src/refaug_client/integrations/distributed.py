"""Scores over all ranks of torch.distributed: replies are gathered on rank 0, which alone asks the server.

Without a process group there is one rank, and torch is not needed.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from refaug_client._core import errors
from refaug_client._scorer.settings import require_replies

if TYPE_CHECKING:
    from refaug_client._scorer.pending import Outcome
    from refaug_client._scorer.scorer import Scorer

T = TypeVar("T")

_REPEATED = ("same", "first", "keep")
_NOT_ANSWERED = ("skipped", "last", "dropped")
_NAMELESS = "score"  # where the server chooses the metric


@dataclass(frozen=True)
class ScoreOfAll:
    """The score of the replies of all ranks together; the same on every rank."""

    metric: str
    corpus: Optional[float]  # None where there is no score
    mean: Optional[float]  # of the replies that have one
    scored: int
    unscored: int  # the server has no score for them, or there was no reply
    unavailable: int  # not scored in time: they were skipped, or have the item's last value
    repeated: int  # replies that were left out as the padding of a sampler
    signature: str

    def to_dict(self) -> dict[str, object]:
        """Return the score as a dict, for a file of results."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class _Row:
    item: str
    reply: Optional[str]
    position: Optional[int]


class ScoreMetric:
    """One score of what all ranks have generated.

        metric = ScoreMetric(scorer)
        for batch in validation:
            metric.update(generated(batch), items=batch["item"])
        found = metric.compute()  # on every rank
        print(found.corpus, found.signature)
        metric.reset()

    A distributed sampler gives every rank the same number of items, and for that repeats some of them. Those count
    once: by their `positions` in the data, where `update` gets them; else by their items, as `repeated` says:

    same   an item's second reply is left out if it is equal to the first, and an error if it is not
    first  an item's first reply counts, whatever the others are
    keep   every reply counts, as where several are drawn for each item

    Rows are put into the order of their positions, or of their items, before they are scored, so that the number of
    ranks does not change a bit of the score.
    """

    def __init__(self, scorer: Scorer, *, repeated: str = "same", group: Any = None) -> None:
        if repeated not in _REPEATED:
            raise errors.Usage(f"repeated={repeated!r} is not a way to count replies", remedy=" | ".join(_REPEATED))
        self.scorer = scorer
        self.repeated = repeated
        self.group = group
        self._rows: list[_Row] = []

    def update(
        self, replies: Sequence[Optional[str]], items: Sequence[str], positions: Optional[Sequence[int]] = None
    ) -> None:
        """Add this rank's replies to these items; nothing is sent yet."""
        self._rows += _rows(replies, items, positions)

    def compute(self) -> ScoreOfAll:
        """Return the score of all replies since `reset`; every rank calls it, and all get it or the same error."""
        everyone = gathered(self._rows, self.group)
        return from_rank_zero(lambda: self._score_rows([row for rows in everyone or () for row in rows]), self.group)

    def reset(self) -> None:
        """Forget the replies of this rank."""
        self._rows = []

    def _score_rows(self, rows: list[_Row]) -> ScoreOfAll:
        unique_rows = _unique_rows(rows, self.repeated)
        replies, items = [row.reply for row in unique_rows], [row.item for row in unique_rows]
        if not unique_rows:
            return ScoreOfAll(self.scorer.metric or _NAMELESS, None, None, 0, 0, 0, 0, "")
        outcome = self.scorer.submit(replies, items=items).outcome
        if outcome.error is not None:
            raise outcome.error.with_traceback(None)
        scores = [score for score in outcome.scores if score is not None]
        unavailable = sum(source in _NOT_ANSWERED for source in outcome.sources)
        scored = count_scored(outcome)
        return ScoreOfAll(
            metric=self.scorer.metric or _NAMELESS,
            corpus=self.scorer.corpus(replies, items=items) if scores else None,
            mean=sum(scores) / len(scores) if scores else None,
            scored=scored,
            unscored=len(unique_rows) - unavailable - scored,
            unavailable=unavailable,
            repeated=len(rows) - len(unique_rows),
            signature=outcome.signature or "",
        )


def count_scored(outcome: Outcome) -> int:
    """Return how many replies were scored; the item's last value does not count."""
    return sum(
        score is not None and source not in _NOT_ANSWERED for score, source in zip(outcome.scores, outcome.sources)
    )


def _rows(replies: Sequence[Optional[str]], items: Sequence[str], positions: Optional[Sequence[int]]) -> list[_Row]:
    texts, ids = require_replies(replies, items)
    places = [None] * len(ids) if positions is None else [int(position) for position in positions]
    if len(places) != len(ids):
        raise errors.Usage(f"{len(ids):,} replies and {len(places):,} positions", remedy="one position for each reply")
    return [_Row(item, text, place) for item, text, place in zip(ids, texts, places)]


def _unique_rows(rows: list[_Row], repeated: str) -> list[_Row]:
    """Return the rows that count, in an order that does not depend on how they were spread over ranks."""
    placed = [row for row in rows if row.position is not None]
    if placed and len(placed) < len(rows):
        raise errors.Usage("some replies came with positions and some without", remedy="positions for all, or for none")
    if placed:
        by_position: dict[Optional[int], _Row] = {}
        for row in rows:
            first = by_position.setdefault(row.position, row)
            if first.item != row.item:
                raise errors.Usage(
                    f"position {row.position} has two items: {first.item!r}, {row.item!r}",
                    remedy="positions in all of the data, not in a batch or a rank's share",
                )
        return sorted(by_position.values(), key=lambda row: row.position or 0)
    if repeated == "keep":
        return sorted(rows, key=lambda row: (row.item, row.reply is None, row.reply or ""))
    by_item: dict[str, _Row] = {}
    for row in rows:
        first = by_item.setdefault(row.item, row)
        if repeated == "same" and first.reply != row.reply:
            raise errors.Usage(
                f"item {row.item!r} has two different replies",
                remedy="repeated='keep' where several are drawn for an item; positions=… or repeated='first' otherwise",
            )
    return sorted(by_item.values(), key=lambda row: row.item)


# ── Ranks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def rank_and_ranks(group: Any = None) -> tuple[int, int]:
    """Return this process's rank and the number of ranks; 0 of 1 without a process group."""
    dist = _dist()
    return (0, 1) if dist is None else (dist.get_rank(group), dist.get_world_size(group))


def gathered(mine: T, group: Any = None) -> Optional[list[T]]:
    """Return the values of all ranks, in the order of ranks, on rank 0; None on the others."""
    dist = _dist()
    if dist is None:
        return [mine]
    rank, ranks = rank_and_ranks(group)
    everyone: Optional[list[Any]] = [None] * ranks if rank == 0 else None
    dist.gather_object(mine, everyone, dst=_first_of(dist, group), group=group)
    return everyone


def from_rank_zero(work: Callable[[], T], group: Any = None) -> T:
    """Return on every rank what `work` returns on rank 0; an error there is raised on all, so that no rank waits."""
    dist = _dist()
    if dist is None:
        return work()
    message: list[Any] = [None, None]
    if rank_and_ranks(group)[0] == 0:
        try:
            message = ["result", work()]
        except Exception as error:
            message = ["error", error if _can_travel(error) else _as_refaug_error(error)]
            dist.broadcast_object_list(message, src=_first_of(dist, group), group=group)
            raise
    dist.broadcast_object_list(message, src=_first_of(dist, group), group=group)
    if message[0] == "error":
        raise message[1]
    outcome: T = message[1]
    return outcome


def _dist() -> Any:
    """Return torch.distributed where a process group is open; a program that never imported it has none."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _first_of(dist: Any, group: Any) -> int:
    """Return the global rank of a group's rank 0."""
    return 0 if group is None else int(dist.get_global_rank(group, 0))


def _can_travel(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  it was pickled a moment ago, here
    except Exception:  # noqa: BLE001  whatever it is, another one can be sent instead
        return False
    return True


def _as_refaug_error(error: Exception) -> errors.RefaugError:
    return errors.RefaugError(f"rank 0: {type(error).__name__}: {error}")
