"""Orders of jobs on conversations: what each writes, nothing out of range, and examples that are orders."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from refaug.core.errors import BadInput, TooLarge
from refaug.core.home import Settings
from refaug.core.installation import OPERATIONS, registered
from refaug.core.options.describing import options_of
from refaug.core.progress import Silent
from refaug.service.jobs import kinds
from refaug.service.jobs.job_order import parse_order, resources_of
from refaug.service.server_settings import ServeSettings

ORDERS: dict[str, dict[str, Any]] = {
    "self-play": {"bots": ["retrieval:chat"], "name": "alone"},
    "judge-conversations": {"conversations": "talks.jsonl", "metrics": ["upsilon-bleu"], "index": "chat"},
    "hybrid-fit": {"conversations": "talks.jsonl", "name": "talks", "vectors": "chat"},
}


def test_all_kinds_are_there() -> None:
    ours = {name for name, target in registered(OPERATIONS).items() if ".conversations." in target}
    assert ORDERS.keys() == ours


@pytest.mark.parametrize("kind", ORDERS)
def test_an_order_reads_back_from_its_json_and_somebody_does_it(kind: str) -> None:
    asked = parse_order({"kind": kind, **ORDERS[kind]})
    assert parse_order(asked.as_order()) == asked
    module, _, function = asked.runs.partition(":")
    assert callable(getattr(import_module(module), function))
    assert [option.spelling for option in options_of(type(asked)) if not option.doc] == []
    assert [parse_order({"kind": kind, **example}).kind for example in asked.examples.values()] == [kind]


@pytest.mark.parametrize(
    ("kind", "resources"), [("self-play", ("self-play/alone",)), ("hybrid-fit", ("hybrid/talks",))]
)
def test_resources_are_what_a_job_writes(kind: str, resources: tuple[str, ...]) -> None:
    assert resources_of(parse_order({"kind": kind, **ORDERS[kind]})) == resources


def test_judgements_share_a_resource_only_with_the_very_same_order() -> None:
    def resource(**more: Any) -> str:
        [found] = resources_of(parse_order({"kind": "judge-conversations", **ORDERS["judge-conversations"], **more}))
        return found

    assert resource() == resource()
    assert resource().startswith("judge-conversations/")
    assert len({resource(), resource(settings={"k": 3}), resource(owner="ann")}) == 3


def test_a_self_play_costs_its_replies_as_if_all_were_as_long_as_they_may_be() -> None:
    order = parse_order({"kind": "self-play", "bots": ["a", "b"], "name": "n", "conversations": 3, "turns": 4})
    assert (order.replies, order.cost()) == (24, 24 * (2_500 + 0.4 * 20_000 * 5))
    short = parse_order({**order.as_order(), "context": 1})
    assert short.cost() == 24 * (2_500 + 0.4 * 20_000)
    long = parse_order({**order.as_order(), "context": 1_000})  # more than a conversation has with its start
    assert long.cost() == order.cost()


def test_a_self_play_of_more_work_than_the_limit_is_refused_with_what_would_be_accepted(tmp_path: Path) -> None:
    order = {"kind": "self-play", "bots": ["retrieval:chat"], "name": "n", "conversations": 1_000, "turns": 1_000}
    parse_order(order).require_within({"self_play_s": 42_500}.__getitem__)
    limits = ServeSettings(self_play_s=42_499)
    for refuse in (
        lambda: parse_order(order).require_within(partial(getattr, limits)),
        lambda: kinds.run(order, Settings(home=tmp_path), limits, Silent(), job="n"),
    ):
        with pytest.raises(TooLarge) as refused:
            refuse()
        assert all(fact in refused.value.message for fact in ("1,000,000", "42,500", "self_play_s", "42,499"))
        assert "999,976 replies" in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "self-play", "bots": ["a", "a"], "name": "n"}, "bots: 'a' comes twice"),
        (
            {"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "metrics": ["bleu"]},
            "the eleven components have no metrics of turns",
        ),
        (
            {"kind": "judge-conversations", "conversations": "a", "metrics": ["bleu", "bleu"]},
            "metrics: 'bleu' comes twice",
        ),
        (
            {"kind": "judge-conversations", "conversations": "selfplay:both", "metrics": ["bleu"], "scale": "1-7"},
            "scale: it says how a file is read",
        ),
        ({"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "index": "chat"}, "index: no metric of turns is named"),
        ({"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "sentiment": "glad"}, "sentiment: 'glad' is not vader"),
        (
            {"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "preset": "ghandeharioun19", "intercept": "common"},
            "intercept: common with preset ghandeharioun19, which has fold",
        ),
        (
            {"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "preset": "ghandeharioun19", "ridge": 0.5},
            "ridge: preset ghandeharioun19 has least squares on ratings as they are",
        ),
        (
            {"kind": "hybrid-fit", **ORDERS["hybrid-fit"], "columns": "wide", "metrics": ["bleu", "bleu"]},
            "metrics: 'bleu' comes twice",
        ),
        ({"kind": "self-play", "bots": ["a"], "name": "n", "start": "middle"}, "start: 'middle' is not a beginning"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_order(values)
    assert message in caught.value.message.replace(f"{values['kind']}.", "")
    assert str(caught.value.remedy).startswith(f"{values['kind']} has the fields ")
