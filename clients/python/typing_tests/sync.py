"""What type checkers see of the client: read by mypy and pyright, and never run.

A line that has to be an error is marked as one; where it is none, the mark itself is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from typing_extensions import assert_type

from refaug_client import (
    Artefact,
    Client,
    Event,
    FrozenSet,
    Health,
    Item,
    Job,
    ListedSet,
    MetricInfo,
    MetricScores,
    NotStarted,
    Outcome,
    Pending,
    Problem,
    Ratings,
    Ready,
    RefaugError,
    Reference,
    ReferencedItem,
    References,
    ReferenceSet,
    Retry,
    Reward,
    Rows,
    ScoredItem,
    Scorer,
    Scores,
    Stream,
    SystemScores,
    Usage,
    Withdrawn,
)


def a_client_is_made_and_used_as_a_block() -> None:
    with Client() as refaug:
        assert_type(refaug, Client)
        assert_type(refaug.health(), Health)
        assert_type(refaug.ready(), Ready)
        assert_type(refaug.server_metrics(), str)
    Client("http://127.0.0.1:8000", key="k", timeout_s=5, retry=Retry(tries=2), connections=2, headers={"A": "b"})
    Client(uds="/run/refaug", retry=0, verify=False)
    Client(8000)  # type: ignore[arg-type]
    Client(timeout="5")  # type: ignore[call-arg]


class Better(Client):
    """A client with something of one's own."""


def a_server_of_ones_own_hands_out_the_very_client(home: Path) -> None:
    with Client.local(home) as refaug:
        assert_type(refaug, Client)
    with Better.local(str(home), options=["--workers", "2"], ready_s=10) as better:
        assert_type(better, Better)
    Client.local(home=3)  # type: ignore[arg-type]


def references_are_typed(refaug: Client, items: list[dict[str, Any]]) -> None:
    references = refaug.references(items, index="chat", settings={"k": 5}, on_error="report")
    assert_type(references, References)
    assert_type(references.items, list[ReferencedItem])
    assert_type(references[0], ReferencedItem)
    assert_type(references[0].references, list[Reference])
    assert_type(references[0].references[0].weight, Optional[float])
    assert_type(references.to_dict(), dict[str, Any])
    for referenced_item in refaug.references_iter(iter(items), progress=True):
        assert_type(referenced_item, ReferencedItem)
    refaug.references(items, on_error="ignore")  # type: ignore[arg-type]
    refaug.references(items, "chat")  # type: ignore[call-arg]


def items_are_dicts_typed_or_not_and_what_came_can_be_sent_again(
    refaug: Client, rows: Iterator[Mapping[str, Any]]
) -> None:
    typed: list[Item] = [{"id": "d1", "utterance": "Where do you buy tea?", "references": ["At the market."]}]
    refaug.score(typed, replies=["In the shop."])
    refaug.score(rows)
    refaug.score(refaug.references(typed), replies={"a": ["In the shop."], "b": (None,)})
    wrong: Item = {"uterance": "Where?"}  # type: ignore[typeddict-unknown-key]
    del wrong


def scores_are_floats_in_the_order_sent(refaug: Client, items: Sequence[Item]) -> None:
    scores = refaug.score(items, metric="upsilon-bleu", draws=1_000, baseline="b", progress=print)
    assert_type(scores, Scores)
    assert_type(scores.corpus, Optional[float])
    assert_type(scores.interval, Optional[list[float]])
    assert_type(scores.replies, list[Optional[float]])
    assert_type(scores.floats(missing=0.0), list[float])
    assert_type(scores.signature, str)
    assert_type(scores["upsilon-bleu"], MetricScores)
    assert_type(scores["upsilon-bleu"]["b"], SystemScores)
    for metric in scores:
        assert_type(metric, MetricScores)
    assert_type(refaug.combine([scores.to_dict()]), Scores)
    refaug.score(items, metrics=["bleu", "chrf"], return_="stats")
    refaug.score(items, return_="sums")  # type: ignore[arg-type]
    refaug.score(items, metrik="bleu")  # type: ignore[call-arg]
    print(scores.replys)  # type: ignore[attr-defined]


def ratings_and_metrics_are_typed(refaug: Client) -> None:
    ratings = refaug.rate([{"utterance": "Tea?", "golds": ["Yes."], "candidates": ["No."]}])
    assert_type(ratings, Ratings)
    assert_type(ratings[0], list[float])
    assert_type(refaug.metrics(), Rows[MetricInfo])
    assert_type(refaug.metrics()[0].range, list[Optional[float]])


def sets_are_frozen_looked_at_and_scored_against(refaug: Client, items: Sequence[Item]) -> None:
    frozen = refaug.sets.freeze(items, purpose="train", references="given")
    assert_type(frozen, FrozenSet)
    assert_type(frozen.id, str)
    assert_type(refaug.sets.get(frozen.id), ReferenceSet)
    assert_type(refaug.sets.list(purpose="test"), Rows[ListedSet])
    assert_type(refaug.sets.derive(frozen.id, weights="one"), FrozenSet)
    assert_type(refaug.sets.score(frozen.id, ["Yes.", None], items=["d1", "d1"]), Scores)
    assert_type(refaug.sets.download(frozen.id, to=Path("set.jsonl")), Path)
    refaug.sets.freeze(items)  # type: ignore[call-arg]
    refaug.sets.freeze(items, purpose="training")  # type: ignore[arg-type]
    refaug.sets.score(frozen.id, [1, 2])  # type: ignore[list-item]


def methods_have_the_arguments_of_their_definition(refaug: Client) -> None:
    assert_type(refaug.with_options(timeout_s=600), Client)
    assert_type(Better().with_options(timeout_s=600).sets.get("e7043c04b0875353"), ReferenceSet)
    assert_type(refaug.artefacts.list("index", limit=3), Rows[Artefact])
    assert_type(refaug.jobs.events("01h"), Generator[Event, None, None])
    assert_type(refaug.score_iter([]), Stream[ScoredItem])
    get: Callable[[str], ReferenceSet] = refaug.sets.get
    wrong: Callable[[int], ReferenceSet] = refaug.sets.get  # type: ignore[assignment]
    del get, wrong
    refaug.sets.get()  # type: ignore[call-arg]
    refaug.sets.get("e7043c04b0875353", timeout_s=3)  # type: ignore[call-arg]
    refaug.with_options(timeout=3)  # type: ignore[call-arg]


def jobs_are_waited_for_and_followed(refaug: Client) -> None:
    job = refaug.jobs.start("index-update", index="chat")
    assert_type(job, Job)
    assert_type(refaug.jobs.wait(job.id, progress=True), Job)
    assert_type(refaug.jobs.list(state="done"), Rows[Job])
    for event in refaug.jobs.events(job.id):
        assert_type(event.kind, str)
        assert_type(event.share, Optional[float])
    refaug.jobs.wait(job)  # type: ignore[arg-type]


def a_scorer_is_called_or_collected_from(refaug: Client) -> None:
    with refaug.scorer(reference_set="e7043c04b0875353", cache=Path("scores.sqlite"), on_unavailable="last") as scorer:
        assert_type(scorer, Scorer)
        assert_type(scorer(["Yes."], items=["d1"]), list[Optional[float]])
        pending = scorer.submit(["Yes.", None], items=["d1", "d2"], tag=7)
        assert_type(pending, Pending)
        assert_type(pending.done(), bool)
        assert_type(pending.result(timeout_s=1.0), list[Optional[float]])
        assert_type(pending.outcome, Outcome)
        for collected in scorer.collect():
            assert_type(collected, Pending)
        assert_type(scorer.drain(10), list[Pending])
        assert_type(scorer.signature, str)
        assert_type(scorer.corpus(["Yes."], items=["d1"]), Optional[float])
    refaug.scorer(metric="bleu")  # type: ignore[call-arg]
    refaug.scorer(reference_set="e7043c04b0875353", on_unavailable="mask")  # type: ignore[arg-type]


def a_reward_gives_floats_and_nothing_else(refaug: Client) -> None:
    reward = refaug.reward(reference_set="e7043c04b0875353", metric="upsilon-bleu", on_unavailable="mask")
    assert_type(reward, Reward)
    assert_type(reward(["Yes."], ["d1"]), list[float])
    assert_type(reward.signature, str)


def errors_are_one_tree_with_what_is_known(refaug: Client) -> None:
    try:
        refaug.health()
    except Withdrawn as error:
        assert_type(error.instead, Optional[str])
    except Problem as error:
        assert_type(error.code, str)
        assert_type(error.problem, dict[str, Any])
    except NotStarted as error:
        assert_type((error.code, error.exit_code, error.log), tuple[str, Optional[int], str])
    except Usage as error:
        assert_type(error.remedy, str)
    except RefaugError as error:
        assert_type(error.request_id, Optional[str])
        assert_type(error.status, Optional[int])
        assert_type(error.tries, int)
