"""Scores as rewards: never against a set for testing, and never invented where the server does not answer."""

from __future__ import annotations

import math
import threading
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional

from refaug_client._core import errors

from .sources.set_client import is_of_reply

if TYPE_CHECKING:
    from refaug_client._threads import Client

    from .scorer import Scorer
    from .settings import OnUnavailable


_RECENT = 256  # replies of which the share of copies is that of
_NOT_LOOKED_AT = ("skipped", "failed", "dropped")  # sources of replies of which it is not known whether they are copies
_ON_UNAVAILABLE: Mapping[str, OnUnavailable] = {"raise": "raise", "mask": "skip"}  # the reward's → the scorer's


@dataclass(frozen=True)
class RewardCounts:
    """What became of all replies so far; each is in one of scored, copied, unscored, masked, failed."""

    asked: int = 0
    scored: int = 0
    copied: int = 0  # they repeat the utterance; `on_copy` decides what they get
    unscored: int = 0  # the server has no score for them or refuses their text, or there was no reply
    masked: int = 0  # the server did not answer in time
    failed: int = 0  # an error was raised instead of a reward

    def __add__(self, more: RewardCounts) -> RewardCounts:
        return RewardCounts(**{name: count + getattr(more, name) for name, count in asdict(self).items()})

    def __sub__(self, before: RewardCounts) -> RewardCounts:
        return RewardCounts(**{name: count - getattr(before, name) for name, count in asdict(self).items()})

    def to_dict(self) -> dict[str, int]:
        """Return the counts as a dict."""
        return asdict(self)


class Reward:
    """A reward for each reply: its score against a frozen set of training items.

        reward = client.reward(reference_set=ID, metric="upsilon-bleu")
        rewards = torch.tensor(reward(replies, items=ids))

    A reply that repeats the utterance, or nearly, is no answer, however many words it shares with good ones:
    `on_copy="refuse"` takes it as one without a score (NoScore, or NaN where rewards are masked), `"zero"` gives it 0,
    and `"score"` its score. The latter two stand in the signature. With `stop_at_copies=0.1`, TooManyCopies ends the
    training once more than a tenth of the last 256 replies are such copies; there is no reward from then on.

    Where there is no score, `on_unavailable="raise"` raises the error (NoScore where the server answers that there is
    none), and `"mask"` gives NaN, also for a text that is too long for the server; it is counted in `counts` and has to
    be left out of the loss. An earlier value, or a zero, would be an invented reward; that is why there is no third
    way.

    A set whose purpose is `test` is refused (WrongPurpose): a model that was optimised on it cannot be tested on it.
    `override_purpose=True` goes ahead, and the signature says so for ever. A `validation` set gives a warning.
    Everything else (`cache`, `max_wait_s`, …) is the scorer's. The server is asked for the set's purpose at once, so
    there is no reward without a server.
    """

    def __init__(
        self,
        client: Client,
        *,
        reference_set: str,
        metric: str = "upsilon-bleu",
        on_unavailable: Literal["raise", "mask"] = "raise",
        on_copy: Literal["refuse", "zero", "score"] = "refuse",
        stop_at_copies: Optional[float] = None,
        override_purpose: bool = False,
        **scorer: Any,
    ) -> None:
        if stop_at_copies is not None and not 0 < stop_at_copies < 1:
            raise errors.Usage(f"stop_at_copies={stop_at_copies!r}", remedy="a share between 0 and 1, such as 0.1")
        if on_unavailable not in _ON_UNAVAILABLE:
            raise errors.Usage(
                f"on_unavailable={on_unavailable!r} would make a reward up", remedy="'raise', or 'mask' for NaN"
            )
        if on_copy not in ("refuse", "zero", "score"):
            raise errors.Usage(f"on_copy={on_copy!r}", remedy="'refuse', 'zero', or 'score'")
        self.metric = metric
        self.on_unavailable = on_unavailable
        self.on_copy = on_copy
        self.stop_at_copies = stop_at_copies
        self.scorer: Scorer = client.scorer(
            reference_set=reference_set,
            metric=metric,
            on_unavailable=_ON_UNAVAILABLE[on_unavailable],
            on_full="block",
            **scorer,
        )
        try:
            facts = self.scorer.facts
            self.reference_set: str = facts.set
            self.purpose: str = facts.purpose
            self.overridden: bool = _check_purpose(facts.set, facts.purpose, override_purpose)
            _warn_of_parrots(facts.set, facts.signature)
        except BaseException:
            self.scorer.close()
            raise
        self._start_counting()

    def _start_counting(self) -> None:
        self._counts = RewardCounts()
        self._recent: deque[bool] = deque(maxlen=_RECENT)  # whether each reply was a copy
        self._lock = threading.Lock()

    def __call__(self, replies: Sequence[Optional[str]], items: Sequence[str]) -> list[float]:
        """Return a reward for each reply, in their order; NaN for what is masked or refused."""
        outcome = self.scorer.submit(replies, items=items).outcome
        masks = self.on_unavailable == "mask"
        refused = {place for place, error in outcome.errors.items() if masks and is_of_reply(error)}
        sources = ["no-reply" if place in refused else source for place, source in enumerate(outcome.sources)]
        counts = _count(sources, outcome.scores)
        with self._lock:
            self._counts += counts
            self._stop_at_copies(sources)
        for place, error in outcome.errors.items():
            if place not in refused:
                raise error.with_traceback(None)
        copies = [item for item, source in zip(outcome.items, outcome.sources) if source == "copied"]
        if copies and self.on_copy == "refuse" and self.on_unavailable == "raise":
            raise errors.NoScore(
                f"{counts.copied} of {counts.asked} replies repeat the utterance, the first to item {copies[0]!r}",
                remedy="on_copy='zero' rewards them with 0; on_unavailable='mask' leaves them out",
            )
        if counts.unscored and self.on_unavailable == "raise":
            missing = [
                item
                for item, score, source in zip(outcome.items, outcome.scores, outcome.sources)
                if score is None and source != "copied"
            ]
            raise errors.NoScore(
                f"{counts.unscored} of {counts.asked} replies have no score, the first to item {missing[0]!r}",
                remedy="leave such items out, or on_unavailable='mask'",
            )
        return [self._reward(score, source) for score, source in zip(outcome.scores, outcome.sources)]

    def _stop_at_copies(self, sources: Sequence[str]) -> None:
        """Raise TooManyCopies where too many of the last replies are copies, and at every later call."""
        if self.stop_at_copies is None or self._has_too_many():
            sources = ()
        for source in sources:
            if source not in _NOT_LOOKED_AT:
                self._recent.append(source == "copied")
                if self._has_too_many():  # before the copies move on
                    break
        if self._has_too_many():
            raise errors.TooManyCopies(
                f"{sum(self._recent)} of the last {_RECENT} replies repeat the utterance: more than "
                f"stop_at_copies={self.stop_at_copies}",
                remedy="go back to an earlier checkpoint; what copies share with references may be what is rewarded",
            )

    def _has_too_many(self) -> bool:
        if self.stop_at_copies is None:
            return False
        return len(self._recent) == _RECENT and sum(self._recent) > self.stop_at_copies * _RECENT

    def _reward(self, score: Optional[float], source: str) -> float:
        if source == "copied" and self.on_copy != "score":
            return 0.0 if self.on_copy == "zero" else math.nan
        return math.nan if score is None else score

    @property
    def signature(self) -> str:
        """What a reward is, setting by setting; ends in `|purpose-override:test` where a test set was insisted on."""
        copies = "" if self.on_copy == "refuse" else f"|copies:{self.on_copy}"
        override = f"|purpose-override:{self.purpose}" if self.overridden else ""
        return f"{self.scorer.signature}{copies}{override}"

    @property
    def counts(self) -> RewardCounts:
        """How many replies were scored, masked and so on, since the reward was made."""
        with self._lock:
            return self._counts

    def close(self) -> None:
        """End the scorer's threads."""
        self.scorer.close()

    def __enter__(self) -> Reward:  # noqa: PYI034  Self is younger than Python 3.9
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_counts", "_recent")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start_counting()

    def __repr__(self) -> str:
        override = ", override_purpose=True" if self.overridden else ""
        copies = "" if self.on_copy == "refuse" else f", on_copy={self.on_copy!r}"
        return (
            f"<Reward {self.metric} against {self.purpose} set {self.reference_set}, "
            f"on_unavailable={self.on_unavailable!r}{copies}{override}>"
        )


def _check_purpose(name: str, purpose: str, override: bool) -> bool:
    """Whether the purpose of a set was overridden; WrongPurpose where it has to be, and was not."""
    if purpose == "test":
        if not override:
            raise errors.WrongPurpose(
                f"reference set {name} is for testing; once a model was optimised on it, it tests nothing any more",
                remedy="a set frozen with purpose='train'; override_purpose=True goes into every signature",
            )
        return True
    if override:
        raise errors.Usage(f"reference set {name} is for {purpose}: there is nothing to override")
    if purpose == "validation":
        warnings.warn(
            f"reference set {name} is for validation: a checkpoint that was optimised on it cannot be chosen by it",
            stacklevel=4,
        )
    return False


def _warn_of_parrots(name: str, signature: str) -> None:
    """Warn of a set whose references hold the utterances: a model learns to repeat its prompts from it."""
    parrots = [part for part in signature.split("|") if part.startswith("parrot:") and part != "parrot:off"]
    if parrots:
        warnings.warn(
            f"reference set {name} has the utterances among its references ({parrots[0]}), which rewards their words: "
            f"refaug sets derive {name} --parrot off makes the same set without",
            stacklevel=4,
        )


def _count(sources: Sequence[str], scores: Sequence[Optional[float]]) -> RewardCounts:
    masked, failed = sources.count("skipped"), sources.count("failed") + sources.count("dropped")
    copied = sources.count("copied")
    scored = sum(score is not None and source != "copied" for score, source in zip(scores, sources))
    unscored = len(scores) - scored - copied - masked - failed
    return RewardCounts(
        asked=len(scores), scored=scored, copied=copied, unscored=unscored, masked=masked, failed=failed
    )
