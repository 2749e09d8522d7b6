"""The client of endpoints, against servers on loopback that answer well, badly, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from endpoints import FakeEndpoint, Received, Sent, endpoint, llama_cpp, ollama, openai, vllm
from refusals import refusing

from refaug.bots.endpoint.answer_store import AnswerStore
from refaug.bots.endpoint.chat import ChatAnswer, ChatMessage, ChatRequest, Fault, FaultKind
from refaug.bots.endpoint.client import Breaker, ClientSettings, ask_all
from refaug.bots.endpoint.specification import Endpoint
from refaug.bots.endpoint.spending import Budget, Price, Spending
from refaug.core.errors import BadInput, StorageFull

QUICK = ClientSettings(first_wait_s=0.001, breaker=lambda: Breaker(pause_s=0))
NEVER_BROKEN = ClientSettings(first_wait_s=0.001, breaker=lambda: Breaker(faults=10**9))


def request(text: str) -> ChatRequest:
    return ChatRequest(messages=(ChatMessage("user", text),), max_tokens=10, seed=1)


def of(fake: FakeEndpoint, **fields: object) -> Endpoint:
    return replace(Endpoint(url=fake.url, model="small"), **fields)


def kinds(outcomes: list[ChatAnswer | Fault]) -> list[str]:
    return [outcome.kind.value if isinstance(outcome, Fault) else outcome.text for outcome in outcomes]


@pytest.mark.parametrize(
    ("shape", "fingerprint"), [(openai, "fp_1"), (vllm, ""), (ollama, ""), (llama_cpp, "b4321-1a2b3c4")]
)
def test_answers_of_every_vendor_are_read_alike(shape, fingerprint) -> None:
    with endpoint(lambda received: shape(f"to {received.prompt}")) as fake:
        (answer,) = ask_all(of(fake), [request("a")], settings=QUICK)
    assert (answer.text, answer.finish, answer.fingerprint, answer.answer_tokens) == ("to a", "stop", fingerprint, 7)
    assert fake.received[0].path == "/v1/chat/completions"
    assert fake.received[0].body == {
        "model": "small",
        "messages": [{"role": "user", "content": "a"}],
        "temperature": 0.0,
        "seed": 1,
        "max_tokens": 10,
    }


def test_many_requests_keep_their_order_and_their_limit() -> None:
    texts = [str(number) for number in range(60)]
    with endpoint(lambda received: openai(received.prompt)) as fake:
        outcomes = ask_all(of(fake, concurrency=7), [request(text) for text in texts], settings=QUICK)
    assert [answer.text for answer in outcomes] == texts
    assert fake.most_at_once <= 7
    assert len(fake.received) == 60


def test_equal_requests_are_sent_once() -> None:
    with endpoint(lambda received: openai(received.prompt)) as fake:
        outcomes = ask_all(of(fake), [request("a"), request("b"), request("a")], settings=QUICK)
    assert kinds(outcomes) == ["a", "b", "a"]
    assert len(fake.received) == 2


FAULTS = {
    "server": Sent(status=503, body={"error": {"message": "busy"}}),
    "rate_limited": Sent(status=429, headers={"Retry-After": "0"}),
    "not_json": Sent(body=b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"}),
    "wrong_shape": Sent(body={"choices": []}),
    "cut_off": Sent(body=openai("half"), cut=30),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_passing_fault_is_tried_again_under_the_same_id(kind: str) -> None:
    def respond(received: Received) -> Sent | dict[str, object]:
        return FAULTS[kind] if received.number < 2 else openai("well")

    with endpoint(respond) as fake:
        assert kinds(ask_all(of(fake), [request("a")], settings=QUICK)) == ["well"]
    assert len({received.headers["idempotency-key"] for received in fake.received}) == 1
    assert len(fake.received) == 3


@pytest.mark.parametrize(
    ("sent", "kind", "tries"),
    [
        (FAULTS["server"], "server", 3),
        (FAULTS["not_json"], "not_json", 3),
        (FAULTS["wrong_shape"], "wrong_shape", 3),
        (FAULTS["cut_off"], "cut_off", 3),
        (Sent(body={"error": "model not loaded"}), "server", 3),
        (Sent(body=b""), "not_json", 3),
        (Sent(status=400, body={"error": {"message": "no logprobs"}}), "rejected", 1),
        (Sent(status=401, body={"error": {"message": "who?"}}), "no_access", 1),
        (Sent(status=429, body={"error": {"code": "insufficient_quota"}}), "no_access", 1),
        (Sent(status=302, headers={"Location": "http://127.0.0.1:1/"}), "redirect", 1),
        (Sent(body=b"x" * 2_000), "too_large", 1),
        (Sent(body=openai("a"), headers={"Content-Encoding": "gzip"}), "wrong_shape", 3),
        (Sent(hangs=True), "timeout", 3),
    ],
    ids=str,
)
def test_a_lasting_fault_is_an_outcome(sent: Sent, kind: str, tries: int) -> None:
    with endpoint(lambda _: sent) as fake:
        (fault,) = ask_all(of(fake, tries=3, timeout_s=0.2, max_answer_bytes=1_000), [request("a")], settings=QUICK)
    assert fault.kind.value == kind
    assert len(fake.received) == tries or (sent.hangs and len(fake.received) < tries)  # a busy machine reads late


def test_an_answer_of_ten_megabytes_is_refused_by_the_usual_limit() -> None:
    with endpoint(lambda _: openai("a" * 10_000_000)) as fake:
        (fault,) = ask_all(of(fake), [request("a")], settings=QUICK)
    assert (fault.kind, len(fake.received)) == (FaultKind.TOO_LARGE, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_where_a_redirect_leads_nothing_is_asked(status: int) -> None:
    with endpoint(lambda _: openai("secret")) as inside:
        moved = Sent(status=status, headers={"Location": f"{inside.url}/chat/completions"})
        with endpoint(lambda _: moved) as fake:
            (fault,) = ask_all(of(fake), [request("a")], settings=QUICK)
    assert (fault.kind, len(fake.received), inside.received) == (FaultKind.REDIRECT, 1, [])


def test_nothing_listens() -> None:
    with endpoint(lambda _: openai("a")) as fake:
        gone = of(fake, tries=2)
    (fault,) = ask_all(gone, [request("a")], settings=QUICK)
    assert fault.kind is FaultKind.CONNECTION


def test_mixed_faults_give_every_request_one_outcome() -> None:
    listed = [*FAULTS.values(), Sent(status=400), Sent(status=302, headers={"Location": "/x"}), Sent(body=b"x" * 5_000)]

    def respond(received: Received) -> Sent | dict[str, object]:
        place = received.number % 20
        return listed[place] if place < len(listed) else openai(received.prompt)

    texts = [str(number) for number in range(120)]
    seen = Counter[str]()
    with endpoint(respond) as fake:
        outcomes = ask_all(
            of(fake, max_answer_bytes=1_000, concurrency=8),
            [request(text) for text in texts],
            settings=NEVER_BROKEN,
            on_outcome=lambda outcome: seen.update([type(outcome).__name__]),
        )
    assert seen.total() == len(outcomes) == 120
    assert all(
        outcome.text == text if isinstance(outcome, ChatAnswer) else outcome.kind in FaultKind
        for outcome, text in zip(outcomes, texts, strict=True)
    )
    lasting = {outcome.kind.value for outcome in outcomes if isinstance(outcome, Fault)}
    assert {"rejected", "redirect", "too_large"} <= lasting


def test_patience_with_429_ends() -> None:
    with endpoint(lambda _: Sent(status=429, headers={"Retry-After": "3600"})) as fake:
        (fault,) = ask_all(of(fake, patience_s=60), [request("a")], settings=QUICK)
    assert fault.kind is FaultKind.RATE_LIMITED
    assert len(fake.received) == 1


def test_a_dead_endpoint_is_given_up() -> None:
    with endpoint(lambda _: Sent(status=401, body={"error": {"message": "wrong key"}})) as fake:
        outcomes = ask_all(of(fake, concurrency=1), [request(str(number)) for number in range(50)], settings=QUICK)
    assert kinds(outcomes) == ["no_access"] * 10 + ["given_up"] * 40  # eight in a row, and two trials
    assert len(fake.received) == 10
    assert "wrong key" in outcomes[-1].message


def test_an_endpoint_that_comes_back_is_used_again() -> None:
    def respond(received: Received) -> Sent | dict[str, object]:
        return Sent(status=401) if received.number < 9 else openai("back")

    with endpoint(respond) as fake:
        outcomes = ask_all(of(fake, concurrency=1), [request(str(number)) for number in range(20)], settings=QUICK)
    assert kinds(outcomes) == ["no_access"] * 9 + ["back"] * 11


def test_requests_that_are_rejected_close_no_endpoint_that_answers_others() -> None:
    def respond(received: Received) -> Sent | dict[str, object]:
        return Sent(status=400) if int(received.prompt) % 50 < 40 else openai("well")

    requests = [request(str(number)) for number in range(150)]
    with endpoint(respond) as fake:
        outcomes = ask_all(of(fake, concurrency=1), requests, settings=QUICK)
    assert kinds(outcomes) == (["rejected"] * 40 + ["well"] * 10) * 3
    with endpoint(lambda _: Sent(status=422)) as fake:
        outcomes = ask_all(of(fake, concurrency=1), requests, settings=QUICK)
    assert Counter(kinds(outcomes)) == {"rejected": 110, "given_up": 40}


# ── stored answers ────────────────────────────────────────────────────────────────────────────────────────────────


def test_stored_answers_are_not_asked_again(tmp_path: Path) -> None:
    requests = [request(text) for text in "abc"]
    with endpoint(lambda received: openai(received.prompt)) as fake, AnswerStore(tmp_path / "answers.db") as store:
        ask_all(of(fake, concurrency=1), requests[:2], settings=QUICK, store=store)
        spending = Spending()
        outcomes = ask_all(of(fake), requests, settings=QUICK, store=store, spending=spending)
        assert ask_all(of(fake, model="other"), requests[:1], settings=QUICK, store=store)[0].is_stored is False
    assert kinds(outcomes) == ["a", "b", "c"]
    assert [answer.is_stored for answer in outcomes] == [True, True, False]
    assert (spending.stored, spending.requests) == (2, 1)
    assert [received.prompt for received in fake.received] == ["a", "b", "c", "a"]


def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    outcomes = list[object]()

    def stop_at_the_tenth(outcome: object) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 10:
            raise StorageFull("no room")

    requests = [request(str(number)) for number in range(30)]
    with endpoint(lambda received: openai(received.prompt)) as fake, AnswerStore(tmp_path / "answers.db") as store:
        with pytest.raises(StorageFull):
            ask_all(of(fake, concurrency=1), requests, settings=QUICK, store=store, on_outcome=stop_at_the_tenth)
        again = ask_all(of(fake, concurrency=1), requests, settings=QUICK, store=store)
    assert kinds(again) == [str(number) for number in range(30)]
    assert Counter(received.prompt for received in fake.received).most_common(1)[0][1] == 1


def test_faults_are_not_stored(tmp_path: Path) -> None:
    def respond(received: Received) -> Sent | dict[str, object]:
        return Sent(status=400) if received.number == 0 else openai("now")

    with endpoint(respond) as fake, AnswerStore(tmp_path / "answers.db") as store:
        first = ask_all(of(fake), [request("a")], settings=QUICK, store=store)
        second = ask_all(of(fake), [request("a")], settings=QUICK, store=store)
    assert kinds(first) + kinds(second) == ["rejected", "now"]


def test_offline_sends_nothing(tmp_path: Path) -> None:
    with endpoint(lambda _: openai("a")) as fake, AnswerStore(tmp_path / "answers.db") as store:
        ask_all(of(fake), [request("a")], settings=QUICK, store=store)
        outcomes = ask_all(
            of(fake), [request("a"), request("b")], settings=replace(QUICK, is_offline=True), store=store
        )
    assert kinds(outcomes) == ["a", "not_stored"]
    assert len(fake.received) == 1


def test_an_answer_keeps_its_probabilities_in_the_store(tmp_path: Path) -> None:
    top = [{"token": "4", "logprob": -0.5}, {"token": "5", "logprob": -1.5}]
    logprobs = {"content": [{"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": top}]}
    with endpoint(lambda _: openai("4", logprobs=logprobs)) as fake, AnswerStore(tmp_path / "answers.db") as store:
        (answer,) = ask_all(of(fake), [request("a")], settings=QUICK, store=store)
        (stored,) = ask_all(of(fake), [request("a")], settings=QUICK, store=store)
    assert stored == replace(answer, is_stored=True)
    assert stored.tokens[0].alternatives == (("4", -0.5), ("5", -1.5))


# ── money ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_and_money_are_counted() -> None:
    spending = Spending(Price(input=1.0, output=10.0))
    with endpoint(lambda _: openai("a")) as fake:
        ask_all(of(fake), [request("a"), request("b")], settings=QUICK, spending=spending)
    assert (spending.prompt_tokens, spending.answer_tokens) == (200, 14)
    assert spending.money == pytest.approx((200 * 1 + 14 * 10) / 1e6)


def test_a_budget_is_never_exceeded() -> None:
    def respond(received: Received) -> dict[str, object]:
        answer = openai("a")
        answer["usage"] = {"prompt_tokens": 8, "completion_tokens": 2}
        return answer

    spending = Spending(budget=Budget(tokens=100))
    with endpoint(respond) as fake:
        outcomes = ask_all(
            of(fake, concurrency=16), [request(str(n)) for n in range(50)], settings=QUICK, spending=spending
        )
    assert Counter(kinds(outcomes))["over_budget"] == 50 - len(fake.received)
    assert (len(fake.received), spending.tokens) == (9, 90)  # a tenth may cost 19


def test_a_budget_reserves_as_long_an_answer_as_parameters_allow() -> None:
    own = {"parameters": {"max_completion_tokens": 5_000}, "omit": ("max_tokens",)}
    with endpoint(lambda _: openai("a")) as fake:
        outcomes = ask_all(of(fake, budget=Budget(tokens=4_000), **own), [request("a")], settings=QUICK)
    assert (kinds(outcomes), fake.received) == (["over_budget"], [])


def test_tries_without_a_usable_answer_count_in_the_budget() -> None:
    free = Spending()
    with endpoint(lambda _: {"unusable": True}) as fake:
        ask_all(of(fake, tries=4), [request("a")], settings=QUICK, spending=free)
    assert (len(fake.received), free.lost_tries, free.requests, free.tokens) == (4, 4, 0, 0)
    most = (free.lost_prompt + free.lost_answer) // 4  # that one try may cost
    spending = Spending(budget=Budget(tokens=2 * most))
    with endpoint(lambda _: {"unusable": True}) as fake:
        outcomes = ask_all(
            of(fake, tries=4, concurrency=1), [request("a"), request("b")], settings=QUICK, spending=spending
        )
    assert (len(fake.received), kinds(outcomes)) == (2, ["wrong_shape", "over_budget"])
    assert f"2 tries broke off and may have cost {2 * most:,} tokens more" in spending.line
    assert (spending.as_json()["lost_tries"], spending.as_json()["lost_tokens"]) == (2, 2 * most)
    refused = Spending(budget=Budget(tokens=2 * most))
    with endpoint(lambda _: Sent(status=503, body={})) as fake:
        ask_all(of(fake, tries=3), [request("a")], settings=QUICK, spending=refused)
    assert (len(fake.received), refused.lost_tries) == (3, 0)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_is_sent_and_never_shown() -> None:
    def respond(received: Received) -> Sent:
        return Sent(status=401, body={"error": {"message": f"no such key: {received.headers['authorization']}"}})

    settings = replace(QUICK, environment={"JUDGE_KEY": "sesame-123"})
    with endpoint(respond) as fake:
        (fault,) = ask_all(of(fake, key_env="JUDGE_KEY"), [request("a")], settings=settings)
    assert fake.received[0].headers["authorization"] == "Bearer sesame-123"
    assert "sesame" not in fault.message
    assert "(key)" in fault.message


def test_an_unset_key_is_refused_before_anything_is_sent() -> None:
    with endpoint(lambda _: openai("a")) as fake, refusing(BadInput, "JUDGE_KEY"):
        ask_all(of(fake, key_env="JUDGE_KEY"), [request("a")], settings=replace(QUICK, environment={}))
    assert not fake.received


def test_a_running_loop_of_the_caller_does_not_matter() -> None:
    async def inside() -> list[ChatAnswer | Fault]:
        return ask_all(of(fake), [request("a")], settings=QUICK)

    with endpoint(lambda _: openai("well")) as fake:
        assert kinds(asyncio.run(inside())) == ["well"]
