"""Rewards: what they are, what they refuse, and what becomes of replies without a score."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from refusals import refusing
from scripted import Asked, Said, ok, problem, scripted

from refaug_client import BadInput, Client, NoKey, NoScore, TooManyCopies, Unavailable, Usage, WrongPurpose
from refaug_client._scorer.rewards import Reward, RewardCounts
from refaug_client.integrations.trl import RewardFunction, reply_of

REPLIES = ["we like red boats", "the mill", "we like red boats at noon", ""]
IDS = ["d0", "d1", "d0", "d2"]


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url, retry=0) as made:
        yield made


def answer(asked: Asked, values: Any, purpose: str = "train") -> Said:
    """As the server answers when it is asked for values."""
    one = {
        "metric": "upsilon-bleu",
        "signature": "upsilon-bleu|set:s1",
        "signature_full": "upsilon-bleu|set:s1|more",
        "scale": 1.0,
        "systems": {"model": {"corpus": 0.5, "values": values}},
    }
    return ok({"scores": [one], "set": {"id": "s1", "purpose": purpose, "items": 3}, "problems": []})


def answering(purpose: str = "train", score: Any = 0.25, fails: Any = lambda number: None) -> Any:
    """A server whose every reply scores the same; `fails` gives the answer to a request for scores that goes wrong."""
    lock, number = threading.Lock(), [0]

    def answers(asked: Asked) -> Any:
        replies = asked.json["replies"]["model"]
        if replies == [None]:
            return answer(asked, [None], purpose)
        with lock:
            number[0] += 1
            wrong = fails(number[0])
        return wrong or answer(asked, [score if reply else None for reply in replies], purpose)

    return answers


@contextmanager
def rewarding(answers: Any, **options: Any) -> Iterator[Reward]:
    with scripted(answers) as server, Client(server.url, retry=0) as client:
        reward = client.reward(reference_set="s1", **options)
        yield reward
        reward.close()


# ── what they are ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rewards_are_the_scores_of_the_set_bit_for_bit_and_in_order(client: Client, sets: dict[str, str]) -> None:
    direct = client.sets.score(sets["train"], replies={"model": REPLIES}, items=IDS, metrics=["upsilon-bleu"])
    with client.reward(reference_set=sets["train"], metric="upsilon-bleu") as reward:
        found = reward(REPLIES, items=IDS)
        assert found == direct.replies
        assert len(set(found)) > 1
        assert reward.signature == direct.signature
        assert reward.counts == RewardCounts(asked=4, scored=4)
        assert repr(reward) == f"<Reward upsilon-bleu against train set {sets['train']}, on_unavailable='raise'>"


def test_a_set_is_found_by_the_beginning_of_its_id(client: Client, sets: dict[str, str]) -> None:
    with client.reward(reference_set=sets["train"][:8]) as reward:
        assert reward.reference_set == sets["train"]


def test_no_replies_are_no_rewards(client: Client, sets: dict[str, str]) -> None:
    with client.reward(reference_set=sets["train"]) as reward:
        assert reward([], items=[]) == []
        assert reward.counts == RewardCounts()


def test_a_reward_can_be_handed_to_another_process(client: Client, sets: dict[str, str]) -> None:
    with client.reward(reference_set=sets["train"], on_unavailable="mask") as reward:
        before = reward(REPLIES, items=IDS)
        with pickle.loads(pickle.dumps(reward)) as again:
            assert again.counts == RewardCounts()
            assert again(REPLIES, items=IDS) == before
            assert (again.signature, again.on_unavailable) == (reward.signature, "mask")


def test_a_text_that_cannot_be_scored_is_masked_and_an_error_where_nothing_is(
    client: Client, sets: dict[str, str]
) -> None:
    texts, ids = ["tea", "long " * 5_000, "half \ud83d"], ["d1", "d2", "d3"]
    with client.reward(reference_set=sets["train"], on_unavailable="mask") as reward:
        good, long, half = reward(texts, items=ids)
        assert (math.isnan(long), math.isnan(half), good == reward(["tea"], items=["d1"])[0]) == (True, True, True)
        assert reward.counts == RewardCounts(asked=4, scored=2, unscored=2)
        with refusing(BadInput, "items: half"):
            reward(texts, items=["d1", "d2", "d\ud83d"])
    with client.reward(reference_set=sets["train"]) as reward, refusing(BadInput, "25,000 characters"):
        reward(texts[:2], items=ids[:2])


def test_an_unknown_item_is_an_error_even_where_rewards_are_masked(client: Client, sets: dict[str, str]) -> None:
    with client.reward(reference_set=sets["train"], on_unavailable="mask") as reward:
        with refusing(Exception, "nowhere"):
            reward(["tea", "tea"], items=["d0", "nowhere"])
        assert reward.counts == RewardCounts(asked=2, scored=1, failed=1)


def own_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith("refaug-")}


# ── purposes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_set_for_testing_is_refused(client: Client, sets: dict[str, str]) -> None:
    before = own_threads()
    with refusing(WrongPurpose, sets["test"]):
        client.reward(reference_set=sets["test"])
    assert own_threads() <= before


def test_an_override_goes_into_the_signature_and_the_repr(client: Client, sets: dict[str, str]) -> None:
    with client.reward(reference_set=sets["test"], override_purpose=True) as reward:
        reward(REPLIES, items=IDS)
        assert reward.signature == f"{reward.scorer.signature}|purpose-override:test"
        assert reward.scorer.facts.set == sets["test"]
        assert "override_purpose=True" in repr(reward)
        with pickle.loads(pickle.dumps(reward)) as again:
            assert again.signature == reward.signature


def test_there_is_nothing_to_override_at_a_set_for_training(client: Client, sets: dict[str, str]) -> None:
    with refusing(Usage, "train"):
        client.reward(reference_set=sets["train"], override_purpose=True)


def test_a_set_for_validation_gives_a_warning_that_points_at_the_caller(client: Client, sets: dict[str, str]) -> None:
    with pytest.warns(UserWarning, match="cannot be chosen by it") as caught:
        reward = client.reward(reference_set=sets["validation"])
    assert [one.filename for one in caught] == [__file__]
    assert "purpose-override" not in reward.signature
    reward.close()


# ── no score ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["last", "skip", "zero", None, 0.0])
def test_a_reward_is_never_made_up(way: Any) -> None:
    with scripted(answering()) as server, Client(server.url) as client:
        with refusing(Usage):
            client.reward(reference_set="s1", on_unavailable=way)
        assert server.requests == []


def test_by_default_a_server_that_does_not_answer_is_an_error() -> None:
    busy = problem(503, retry_after=0)
    with rewarding(answering(fails=lambda number: busy)) as reward:
        with pytest.raises(Unavailable):
            reward(["tea", "milk"], items=["a", "b"])
        assert reward.counts == RewardCounts(asked=2, failed=2)


def test_masked_rewards_are_nan_and_counted_until_the_server_answers_again(capsys: Any) -> None:
    def fails(number: int) -> Any:
        return problem(503, retry_after=0) if number == 1 else None

    with rewarding(answering(fails=fails), on_unavailable="mask") as reward:
        found = reward(["tea", "milk"], items=["a", "b"])
        assert [math.isnan(value) for value in found] == [True, True]
        assert reward.counts == RewardCounts(asked=2, masked=2)
        reward.scorer._server.rest.until = 0.0  # as when the pause after a failure is over
        assert reward(["tea", "milk"], items=["a", "b"]) == [0.25, 0.25]
        assert reward.counts == RewardCounts(asked=4, scored=2, masked=2)
    assert "2 skipped" in capsys.readouterr().err


def test_a_key_that_has_expired_is_an_error_even_where_rewards_are_masked() -> None:
    with rewarding(answering(fails=lambda number: problem(401)), on_unavailable="mask") as reward:
        with pytest.raises(NoKey):
            reward(["tea"], items=["a"])
        assert reward.counts == RewardCounts(asked=1, failed=1)


def test_a_reply_without_a_score_is_named_or_masked() -> None:
    with rewarding(answering()) as reward:
        with refusing(NoScore, "b"):
            reward(["tea", ""], items=["a", "b"])
        with pytest.raises(NoScore):
            reward([None], items=["a"])
        assert reward.counts == RewardCounts(asked=3, scored=1, unscored=2)
    with rewarding(answering(), on_unavailable="mask") as reward:
        found = reward(["tea", "", None], items=["a", "b", "c"])
        assert (found[0], math.isnan(found[1]), math.isnan(found[2])) == (0.25, True, True)
        assert reward.counts == RewardCounts(asked=3, scored=1, unscored=2)


def test_there_is_no_reward_without_a_server_and_none_is_left_behind() -> None:
    before = own_threads()
    with scripted([problem(503, retry_after=0)]) as server, Client(server.url, retry=0) as client:
        with pytest.raises(Unavailable):
            client.reward(reference_set="s1", on_unavailable="mask")
        assert own_threads() <= before


# ── as TRL calls it ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def masking() -> Iterator[Reward]:
    with rewarding(answering(), on_unavailable="mask") as reward:
        yield reward


def test_rows_of_other_tasks_and_replies_without_a_score_are_none(masking: Reward) -> None:
    function = RewardFunction(masking)
    said: dict[str, float] = {}
    found = function(
        prompts=["p"] * 3, completions=["tea", "milk", ""], item=["a", None, "b"], log_metric=said.__setitem__, more=1
    )
    assert found == [0.25, None, None]
    assert said == {"refaug/masked": 0.0, "refaug/unscored": 1.0, "refaug/copied": 0.0}
    assert (function.__name__, masking.counts.asked) == ("upsilon-bleu", 2)


def test_rows_of_other_tasks_alone_ask_nothing(masking: Reward) -> None:
    assert RewardFunction(masking)(prompts=["p"], completions=["tea"], item=[None]) == [None]
    assert masking.counts == RewardCounts()


def test_the_column_of_items_is_asked_for_by_its_name(masking: Reward) -> None:
    with refusing(Usage, "item", "line, trainer_state"):
        RewardFunction(masking)(prompts=["p"], completions=["tea"], line=["a"], trainer_state=None)
    assert RewardFunction(masking, item="line")(prompts=["p"], completions=["tea"], line=["a"]) == [0.25]
    with refusing(Usage):
        RewardFunction(masking)(prompts=["p"] * 2, completions=["tea", "tea"], item=["a"])


def test_a_reward_function_is_made_of_a_reward_and_can_be_pickled(masking: Reward) -> None:
    with refusing(Usage, "Scorer"):
        RewardFunction(masking.scorer)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(RewardFunction(masking, item="line")))
    assert again(prompts=["p"], completions=["tea"], line=["a"]) == [0.25]
    again.reward.close()


@pytest.mark.parametrize(
    ("completion", "reply"),
    [
        ("At the mill. ", "At the mill. "),
        ([{"role": "assistant", "content": "tea"}], "tea"),
        ([{"role": "assistant", "content": "x"}, {"role": "tool", "content": "y"}], "x"),
        ([{"role": "assistant", "content": "x"}, {"role": "assistant", "content": "tea"}], "tea"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([{"role": "assistant", "content": [{"type": "text", "text": "te"}, {"type": "text", "text": "a"}]}], "tea"),
        ([{"role": "assistant", "content": "tea", "reasoning_content": "what do they want?"}], "tea"),
        ([], ""),
    ],
)
def test_the_reply_in_a_completion_is_what_the_assistant_said_last(completion: Any, reply: str) -> None:
    assert reply_of(completion) == reply


def test_a_completion_of_another_kind_is_refused() -> None:
    with refusing(Usage, "int"):
        reply_of(3)


def test_the_text_of_a_reply_can_be_found_another_way(masking: Reward) -> None:
    function = RewardFunction(masking, reply=lambda completion: completion.split("</think>")[-1])
    assert function(prompts=["p"], completions=["hm</think>"], item=["a"]) == [None]
    assert function(prompts=["p"], completions=["hm</think>tea"], item=["a"]) == [0.25]


def test_neither_rewards_nor_metrics_need_a_framework() -> None:
    code = (
        "import sys, refaug_client._scorer.rewards, refaug_client.integrations.trl; "
        "import refaug_client.integrations.distributed; "
        "print(sorted({'torch', 'trl', 'transformers', 'lightning', 'numpy'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


# ── replies that copy the utterance ───────────────────────────────────────────────────────────────────────────────────

PROMPTS = [
    {
        "id": "tea",
        "utterance": "Would you like some tea?",
        "references": ["Yes, please.", {"text": "No.", "weight": 0.5}],
    },
    {"id": "bye", "utterance": "Bye!", "references": ["Bye.", {"text": "See you.", "weight": 0.5}]},
]
COPIES = ["would you like some tea", "Yes.", "Bye.", "Would you like some tea?"]
COPIED_IDS = ["tea", "tea", "bye", "tea"]


@pytest.fixture
def prompts(client: Client) -> str:
    return client.sets.freeze(PROMPTS, purpose="train", references="given").id


def test_a_copy_of_the_utterance_has_no_reward_and_is_counted_apart(client: Client, prompts: str) -> None:
    with client.reward(reference_set=prompts, metric="delta-bleu", on_unavailable="mask") as reward:
        for _ in range(2):  # the second time the others come from the cache
            found = reward(COPIES, items=COPIED_IDS)
            assert [math.isnan(one) for one in found] == [True, False, False, True]
            assert found[2] == 1.0  # people have answered so
        assert reward.counts == RewardCounts(asked=8, scored=4, copied=4)
        assert "copies" not in reward.signature


def test_a_copy_is_an_error_of_its_own_where_nothing_is_masked(client: Client, prompts: str) -> None:
    with client.reward(reference_set=prompts, metric="delta-bleu") as reward:
        with refusing(NoScore, "tea"):
            reward(COPIES, items=COPIED_IDS)
        assert reward(COPIES[1:3], items=COPIED_IDS[1:3])[1] == 1.0


def test_on_request_a_copy_gets_zero_or_its_score_and_the_signature_says_so(client: Client, prompts: str) -> None:
    direct = client.sets.score(prompts, replies={"model": COPIES}, items=COPIED_IDS, metrics=["delta-bleu"])
    assert direct.copies["model"].rows == [0, 3]
    assert direct.copies["model"].items == ["tea", "tea"]
    for on_copy, expected in (("zero", [0.0, *direct.replies[1:3], 0.0]), ("score", direct.replies)):
        with client.reward(reference_set=prompts, metric="delta-bleu", on_copy=on_copy) as reward:
            assert reward(COPIES, items=COPIED_IDS) == expected
            assert reward.counts == RewardCounts(asked=4, scored=2, copied=2)
            assert reward.signature == f"{direct.signature}|copies:{on_copy}"
            assert f"on_copy='{on_copy}'" in repr(reward)
            with pickle.loads(pickle.dumps(reward)) as again:
                assert again.signature == reward.signature


def test_another_way_with_copies_is_refused_before_the_server_is_asked(client: Client) -> None:
    with refusing(Usage, "on_copy='drop'"):
        client.reward(reference_set="s1", on_copy="drop")  # type: ignore[arg-type]


def test_a_set_that_holds_parrots_is_warned_of_with_the_command_that_helps() -> None:
    def answers(asked: Asked) -> Said:
        said = answering()(asked)
        return replace(said, body=said.body.replace(b"upsilon-bleu|set:s1", b"upsilon-bleu|parrot:rated|set:s1"))

    with pytest.warns(UserWarning, match=r"\(parrot:rated\).*refaug sets derive s1 --parrot off"), rewarding(answers):
        pass


def test_training_ends_once_copies_are_frequent_among_the_last_replies(client: Client, prompts: str) -> None:
    copy, good = [COPIES[0]], [COPIES[1]]
    ids = [COPIED_IDS[0]], [COPIED_IDS[1]]
    with client.reward(reference_set=prompts, metric="delta-bleu", on_copy="zero", stop_at_copies=0.1) as reward:
        reward(copy * 25, items=ids[0] * 25)  # all copies, but too few replies to say so
        reward(good * 231, items=ids[1] * 231)  # 25 of 256 are no more than a tenth
        function = RewardFunction(reward)
        reward(good * 24, items=ids[1] * 24)  # the first copies are no longer among the last 256
        for _ in range(24):
            assert function(["?"], copy, item=ids[0]) == [0.0]
        assert function(["?"], good, item=ids[1]) == [reward(good, items=ids[1])[0]]
        assert function(["?"], copy, item=ids[0]) == [0.0]  # 25 again
        with refusing(TooManyCopies, "26 of the last 256", "stop_at_copies=0.1"):
            function(["?"], copy, item=ids[0])
        with refusing(TooManyCopies, "26 of the last 256"):
            reward(good, items=ids[1])  # no reward follows
        assert reward.counts.copied == 25 + 24 + 2
        with pickle.loads(pickle.dumps(reward)) as again:
            assert again(copy, items=ids[0]) == [0.0]  # another process counts its own


@pytest.mark.parametrize("share", [0, 1, 10, -0.5])
def test_a_share_that_is_none_is_refused(client: Client, prompts: str, share: float) -> None:
    with refusing(Usage, f"stop_at_copies={share!r}"):
        client.reward(reference_set=prompts, metric="delta-bleu", stop_at_copies=share)
