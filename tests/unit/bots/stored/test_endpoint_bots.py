"""Bots behind addresses, against servers on loopback: what vendors answer, what goes wrong, seeds, ids, resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, llama_cpp, ollama, openai, vllm
from refusals import refusing

from refaug.bots.endpoint.addresses import AddressPolicy
from refaug.bots.endpoint.client import Breaker, ClientSettings
from refaug.bots.replier import BotReply, ReplyRequest
from refaug.bots.stored.endpoint_bot import EndpointAccess, RestingEndpoints
from refaug.bots.stored.opening import StoredBotSources, open_stored
from refaug.bots.stored.specification import StoredBot
from refaug.core.errors import BadInput, NotAllowed
from refaug.core.records import Item

QUICK = ClientSettings(first_wait_s=0.001, breaker=lambda: Breaker(pause_s=0.001))
HTML = Sent(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"})


def request(*turns: str, seed: int = 1, id: str = "") -> ReplyRequest:  # noqa: A002
    return ReplyRequest(item=Item(id="t", turns=turns), seed=seed, id=id)


def bot_of(fake: FakeEndpoint, kind: str = "openai", access: EndpointAccess | None = None, **fields: Any) -> Any:
    model = {"model": "small"} if kind == "openai" else {}
    stored = StoredBot.of("mine", {"kind": kind, "url": fake.url, "tries": 2, **model, **fields})
    return open_stored(stored, StoredBotSources(access=access or EndpointAccess(client=QUICK)))


@pytest.mark.parametrize("shape", [openai, vllm, ollama, llama_cpp])
def test_the_shapes_of_four_vendors_give_the_reply_and_its_tokens(shape: Callable[[str], Any]) -> None:
    with endpoint(lambda _: shape("  At the market. ")) as fake:
        (reply,) = bot_of(fake).replies([request("Where?")])
    assert (reply.text, reply.problem, reply.answer_tokens) == ("At the market.", "", 7)
    assert reply.prompt_tokens == shape("x")["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (openai(""), "empty"),
        (openai(" \n"), "empty"),
        (openai(None), "empty"),
        (vllm("<think>never ends"), "empty"),
        (openai(None, refusal="I will not."), "refusal"),
        (openai(None, tool_calls=[{"id": "1"}], finish="tool_calls"), "tool_call"),
        (openai("I am", finish="content_filter"), "content_filter"),
        (openai("x" * 20_001), "too_large"),
        (HTML, "not_json"),
        (Sent(body=b"ok"), "not_json"),
        ({"choices": []}, "wrong_shape"),
        ({"reply": "a"}, "wrong_shape"),
        (Sent(body=openai("half"), cut=40), "cut_off"),
        (Sent(status=500), "server"),
        (Sent(status=401), "no_access"),
        (Sent(status=400, body={"error": {"message": "no such model"}}), "rejected"),
        (Sent(status=302, headers={"Location": "http://127.0.0.1:1/"}), "redirect"),
        (Sent(body=b"x" * 10_000_000), "too_large"),
    ],
)
def test_what_is_no_reply_is_named_and_never_an_empty_text(answer: Any, problem: str) -> None:
    with endpoint(lambda _: answer) as fake:
        (reply,) = bot_of(fake).replies([request("Where?")])
    assert (reply.text, reply.problem) == (None, problem)
    assert reply.detail


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"reply": ""}, "empty"),
        ({"reply": None}, "wrong_shape"),
        ({"answer": "a"}, "wrong_shape"),
        ([1], "not_json"),
        (HTML, "not_json"),
        ({"error": "out of memory"}, "server"),
        (Sent(body=b'{"reply": "' + b"x" * 10_000_000 + b'"}'), "too_large"),
    ],
)
def test_a_server_of_turns_that_answers_something_else_is_named(answer: Any, problem: str) -> None:
    with endpoint(lambda _: answer) as fake:
        (reply,) = bot_of(fake, "http").replies([request("Where?")])
    assert (reply.text, reply.problem) == (None, problem)


def test_a_server_that_never_answers_costs_its_timeout_alone() -> None:
    with endpoint(lambda _: Sent(hangs=True)) as fake:
        (reply,) = bot_of(fake, tries=1, timeout_s=0.05).replies([request("Where?")])
    assert (reply.text, reply.problem) == (None, "timeout")


def test_one_bad_answer_leaves_the_other_replies_of_a_batch() -> None:
    def answer(received: Received) -> Any:
        return HTML if "bad" in received.prompt else openai(received.prompt.upper())

    with endpoint(answer) as fake:
        replies = bot_of(fake).replies([request(text) for text in ("a", "bad", "", "c")])
    assert [reply.text for reply in replies] == ["A", None, None, "C"]
    assert [reply.problem for reply in replies] == ["", "not_json", "no_utterance", ""]


def test_a_chat_endpoint_gets_the_prompt_alternating_roles_seed_and_parameters() -> None:
    with endpoint(lambda _: openai("yes")) as fake:
        bot = bot_of(fake, system="Be kind.", turns=3, temperature=0.5, max_tokens=9, parameters={"top_p": 0.9})
        bot.replies([request("one", "two", "three", "four", "five", seed=11)])
    (received,) = fake.received
    roles = [(message["role"], message["content"]) for message in received.body["messages"]]
    assert roles == [("system", "Be kind."), ("user", "three"), ("assistant", "four"), ("user", "five")]
    body = {key: received.body[key] for key in ("model", "seed", "temperature", "max_tokens", "top_p")}
    assert body == {"model": "small", "seed": 11, "temperature": 0.5, "max_tokens": 9, "top_p": 0.9}
    assert bot.is_random


def test_a_server_of_turns_gets_turns_id_and_seed_and_one_id_for_all_tries() -> None:
    def answer(received: Received) -> Any:
        return (
            Sent(status=503)
            if received.number == 0
            else {"reply": "yes", "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
        )

    with endpoint(answer) as fake:
        (reply,) = bot_of(fake, "http").replies([request("a", "b", "c", seed=5, id="conv-1/turn-2")])
    assert reply == BotReply(text="yes", prompt_tokens=3, answer_tokens=1)
    assert [received.body for received in fake.received] == [
        {"turns": ["a", "b", "c"], "id": "conv-1/turn-2", "seed": 5}
    ] * 2
    assert len({received.headers["idempotency-key"] for received in fake.received}) == 1
    assert [received.path for received in fake.received] == ["/v1", "/v1"]


def test_retry_after_is_obeyed_and_the_reply_comes() -> None:
    def answer(received: Received) -> Any:
        return Sent(status=429, headers={"Retry-After": "0.01"}) if received.number < 3 else openai("yes")

    with endpoint(answer) as fake:
        (reply,) = bot_of(fake, tries=1).replies([request("a")])
    assert (reply.text, len(fake.received)) == ("yes", 4)
    with endpoint(lambda _: Sent(status=429, headers={"Retry-After": "99"})) as fake:
        (reply,) = bot_of(fake, patience_s=1).replies([request("a")])
    assert (reply.problem, len(fake.received)) == ("rate_limited", 1)


def test_what_was_answered_is_not_asked_again_after_a_stop(tmp_path: Path) -> None:
    access = EndpointAccess(client=QUICK, answers=tmp_path / "answers.db")
    requests = [request(f"t{number}") for number in range(6)]
    with endpoint(lambda received: openai(received.prompt.upper())) as fake:
        first = bot_of(fake, access=access).replies(requests[:4])
        again = bot_of(fake, access=access)
        second = again.replies(requests)
        other_seed = bot_of(fake, access=access).replies([replace(requests[0], seed=2)])
    assert [reply.text for reply in second] == ["T0", "T1", "T2", "T3", "T4", "T5"]
    assert [reply.is_stored for reply in second] == [True] * 4 + [False] * 2
    assert [replace(reply, is_stored=True) for reply in first] == second[:4]
    assert sorted(received.prompt for received in fake.received) == ["t0", "t0", "t1", "t2", "t3", "t4", "t5"]
    assert other_seed[0].is_stored is False
    assert again.remarks[0].startswith("2 asked, 4 from stored answers, 200 tokens in and 14 out")


def test_the_same_seed_gives_the_same_reply_in_any_batch() -> None:
    def answer(received: Received) -> Any:
        return {"reply": f"{received.body['seed']}-{len(received.body['turns'])}"}

    requests = [request(*("a",) * turns, seed=seed) for seed in range(5) for turns in (1, 3)]
    with endpoint(answer) as fake:
        bot = bot_of(fake, "http", concurrency=3)
        together = [reply.text for reply in bot.replies(requests)]
        alone = [bot.replies([single])[0].text for single in requests]
        assert fake.most_at_once <= 3
    assert together == alone == [f"{seed}-{turns}" for seed in range(5) for turns in (1, 3)]


@pytest.mark.parametrize(
    ("fields", "draws"),
    [({"temperature": 0.9, "omit": ["seed"]}, 3), ({"omit": ["temperature", "seed"]}, 3), ({"omit": ["seed"]}, 1)],
)
def test_seeds_that_are_not_sent_are_draws_of_their_own(tmp_path: Path, fields: dict[str, Any], draws: int) -> None:
    access = EndpointAccess(client=QUICK, answers=tmp_path / "answers.db")
    with endpoint(lambda received: openai(f"draw {received.number}")) as fake:
        bot = bot_of(fake, access=access, **fields)
        drawn = [bot.replies([request("a", seed=seed)])[0].text for seed in (7, 8, 9, 7)]
    assert (len(set(drawn)), drawn[0], bot.is_random) == (draws, drawn[3], draws > 1)


def test_a_dead_address_is_given_up_and_rests_between_batches() -> None:
    moment = [0.0]
    access = EndpointAccess(client=QUICK, resting=RestingEndpoints(30, lambda: moment[0]))
    with endpoint(lambda _: Sent(status=500)) as fake:
        bot = bot_of(fake, access=access, tries=1, concurrency=1)
        first = bot.replies([request(f"a{number}") for number in range(30)])
        sent = len(fake.received)
        second = bot.replies([request(f"b{number}") for number in range(30)])
        assert len(fake.received) == sent < 15
        moment[0] = 31.0
        fake.respond = lambda _: openai("back")
        third = bot.replies([request("c")])
    assert {reply.problem for reply in first} == {"server", "given_up"}
    assert {reply.problem for reply in second} == {"given_up"}
    assert third[0].text == "back"


def test_hosts_that_are_not_listed_and_missing_keys_are_refused_before_anything_is_sent(monkeypatch) -> None:
    monkeypatch.delenv("BOT_KEY", raising=False)
    with endpoint(lambda _: openai("yes")) as fake:
        listed = EndpointAccess(client=replace(QUICK, policy=AddressPolicy.of_list(["api.example.com"])))
        with refusing(NotAllowed, "127.0.0.1"):
            bot_of(fake, access=listed)
        with refusing(BadInput, "BOT_KEY"):
            bot_of(fake, key_env="BOT_KEY")
        inside = EndpointAccess(client=replace(QUICK, policy=AddressPolicy.of_list(["127.1"])))
        stored = StoredBot.of("mine", {"kind": "http", "url": f"http://127.1:{fake.port}/", "tries": 1})
        (reply,) = open_stored(stored, StoredBotSources(access=inside)).replies([request("a")])
        assert reply.problem == "address"
        assert fake.received == []
        monkeypatch.setenv("BOT_KEY", "secret-1")
        assert bot_of(fake, key_env="BOT_KEY").replies([request("a")])[0].text == "yes"
    assert fake.received[0].headers["authorization"] == "Bearer secret-1"
    assert "secret-1" not in json.dumps(fake.received[0].body)


def test_a_degraded_bot_spoils_what_an_endpoint_says() -> None:
    with endpoint(lambda _: openai("one two three four")) as fake:
        wrapped = {"kind": "openai", "url": fake.url, "model": "small"}
        stored = StoredBot.of("worse", {"kind": "degraded", "bot": wrapped, "pool": ["red", "blue"], "share": 0.25})
        (reply,) = open_stored(stored, StoredBotSources(access=EndpointAccess(client=QUICK))).replies([request("a")])
    changed = [
        (old, new)
        for old, new in zip(["one", "two", "three", "four"], str(reply.text).split(), strict=True)
        if old != new
    ]
    assert len(changed) == 1
    assert changed[0][1] in {"red", "blue"}
    assert list(stored.addresses) == [fake.url]
