"""The metrics of follow-ups: scores by hand, files of follow-ups, and the models that they ask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from endpoints import Received, Sent, endpoint, openai, write_judge
from refusals import refusing
from vhreds import PlainVhred, tiny_vhred

from refaug.bots.endpoint.chat import AnswerToken
from refaug.core.errors import BadInput, NotFound, Usage
from refaug.core.home import Settings
from refaug.extras.judges.bindings import ReplyLikelihoods
from refaug.extras.judges.follow_up_models import logs_of_last
from refaug.extras.judges.metrics.followups import (
    DEFAULT,
    FollowedReplies,
    FollowUps,
    find_follow_ups,
    score_of,
)
from refaug.extras.judges.metrics.likelihood import Context, PieceLikelihoods
from refaug.metrics.base import Level, Metric, References
from refaug.metrics.catalogue import METRICS
from refaug.metrics.signature import Signature
from refaug.metrics.specification import build
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import bound_metrics

SEPARATOR = FollowedReplies.turn_separator
SAID = FollowUps(name="two", texts_for=("so good", "yes"), texts_against=("no way",))


def likelihoods(*logs: float) -> PieceLikelihoods:
    return PieceLikelihoods.of(np.array(logs))


class WordModel:
    """Every word has log p of minus its length, half of that where the reply has it; the end is certain."""

    spec = "words@1#abc"

    def __init__(self) -> None:
        self.shown = list[tuple[Context, str]]()

    def log_likelihoods(self, replies: Sequence[tuple[Context, str]]) -> list[PieceLikelihoods]:
        self.shown += replies
        return [
            likelihoods(*(-len(word) / (2 if word in context[-1].split() else 1) for word in text.split()), 0.0)
            for context, text in replies
        ]

    def remarks(self) -> tuple[str, ...]:
        return ("words only",)


def scores(metric: Metric, replies: Sequence[str], utterance: str | None = "hello") -> list[float]:
    prepared = metric.prepare([References((), (), -1, utterance)])
    places = np.arange(len(replies))
    return metric.values(metric.statistics(replies, prepared, places, places * 0), Level.REPLY).tolist()


def bound() -> tuple[FollowedReplies, WordModel]:
    unbound, model = build("followup:lm=words"), WordModel()
    assert isinstance(unbound, FollowedReplies)
    return unbound.with_model(model, SAID), model


def test_a_score_is_the_mean_of_those_for_the_reply_less_the_mean_of_those_against_it() -> None:
    sides = [likelihoods(-1.0, -3.0), likelihoods(-5.0)], [likelihoods(-2.0, -4.0, -6.0)]
    assert score_of(*sides) == pytest.approx((-2 - 5) / 2 + 4)
    assert score_of([likelihoods(-900.0, 0.0)], [likelihoods(-1.0)]) == pytest.approx(-10 + 1)
    assert np.isnan(score_of([likelihoods()], [likelihoods(-1.0)]))


def test_a_reply_that_makes_its_follow_ups_likelier_scores_higher() -> None:
    metric, model = bound()
    plain = (-6 / 3 - 3 / 2) / 2 + 5 / 3
    assert scores(metric, ["boat", "good no", "  "]) == pytest.approx(
        [plain, (-4 / 3 - 3 / 2) / 2 + (1 + 3) / 3, -20.0]
    )
    assert (("hello", "boat"), "so good") in model.shown
    assert all(context[-1].strip() for context, _ in model.shown)  # the empty reply is not shown


def test_all_turns_stand_before_the_reply_and_an_item_without_any_has_no_score() -> None:
    metric, model = bound()
    scores(metric, ["boat"], f"hello{SEPARATOR}what is it")
    assert model.shown[0][0] == ("hello", "what is it", "boat")
    assert metric.prepare([References((), (), -1, None)]).problems[0].code == "no_utterance"


def test_the_signature_names_model_and_follow_ups_and_more_of_them_cost_more() -> None:
    metric, _ = bound()
    assert "lm:words@1#abc|followups:two#" in Signature.of(metric).full
    assert metric.remarks() == ("words only",)
    lengths = np.ones((3, 1))
    assert metric.cost(lengths, lengths) == pytest.approx(3 / 8 * METRICS["followup"].cost.units(lengths, lengths))


def test_our_follow_ups_have_both_signs_and_a_hash() -> None:
    said = find_follow_ups(DEFAULT)
    assert len(said.texts_for) == len(said.texts_against) == 4
    assert find_follow_ups(said.spec) == said
    with refusing(BadInput, DEFAULT):
        find_follow_ups(f"{DEFAULT}#0123456789ab")


def test_a_file_has_a_follow_up_a_line_behind_its_sign(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("+ Go on!\n\n- What?\n+Nice.\n")
    said = find_follow_ups(str(path))
    assert (said.name, said.texts_for, said.texts_against) == ("own.txt", ("Go on!", "Nice."), ("What?",))
    path.write_text("- Go on!\n- What?\n+Nice.\n")
    assert find_follow_ups(str(path)).spec != said.spec


@pytest.mark.parametrize("content", ["+ Go on!\n", "- What?\n", "", "Go on!\n- What?\n", "+\n- What?\n"])
def test_a_file_without_one_of_the_signs_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "own.txt"
    path.write_text(content)
    with refusing(BadInput, "own.txt"):
        find_follow_ups(str(path))


def test_a_file_that_is_gone_and_a_model_that_is_not_named_are_refused(tmp_path: Path) -> None:
    with refusing(NotFound, "gone.txt"):
        find_follow_ups(str(tmp_path / "gone.txt"))
    with refusing(Usage, "followup"):
        scores(build("followup"), ["a"])
    models = ModelRegistry(Settings(home=tmp_path))
    with refusing(NotFound, "gone"):
        bound_metrics([build("followup:lm=gone")], models)


def test_a_vhred_reads_the_reply_as_the_last_turn(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path, turns=3)
    said = FollowUps(name="own", texts_for=("we buy warm bread",), texts_against=("you see the old map",))
    unbound = build("followup:lm=tiny")
    assert isinstance(unbound, FollowedReplies)
    metric = unbound.with_model(ReplyLikelihoods(vhred), said)
    plain, encode = PlainVhred(vhred.network), vhred.tokenizer.encode_ids_batch
    dialogue = encode(["i want green tea", "they all see the red boat"])
    states = plain.read(dialogue)
    prior, _ = plain.prior(states.contexts[-1])
    condition = np.concatenate([states.contexts[-1], states.utterances[-1], prior])
    expected = [plain.log_likelihoods(encode([text])[0], condition).mean() for text in said.texts]
    found = scores(metric, ["they all see the red boat"], "i want green tea")
    assert found == pytest.approx([expected[0] - expected[1]], abs=1e-4)


def test_of_each_text_only_the_numbers_of_its_scores_stay_in_memory(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path, turns=3)
    source, replies = (
        ReplyLikelihoods(vhred),
        [(("i want green tea",), text) for text in ("we buy the old map", "you")],
    )
    logs = vhred.log_likelihoods([context for context, _ in replies], [text for _, text in replies])
    likelihoods = source.log_likelihoods(replies)
    assert [tuple(each) for each in likelihoods] == [(len(each), float(each.sum()), float(each.min())) for each in logs]
    assert source.log_likelihoods(replies[::-1]) == likelihoods[::-1]  # to the last bit, whatever batch each is in


# ── Endpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def echoed(received: Received) -> dict[str, object]:
    """A prompt back as vLLM gives it, in words; each has log p of a tenth of its letters."""
    prompt = received.body["prompt"]
    words = ["<s>", *(word + " " for word in prompt.replace("\n", " \n").split(" "))]
    words[-1] = words[-1].rstrip()
    logprobs = {
        "tokens": words,
        "token_logprobs": [None, *(-len(word.strip()) / 10 for word in words[1:])],
        "top_logprobs": None,
        "text_offset": [0] * len(words),
    }
    choice = {"index": 0, "text": prompt, "logprobs": logprobs, "finish_reason": "length"}
    return {"id": "cmpl-1", "object": "text_completion", "model": "base-1", "choices": [choice], "usage": {}}


def bound_to_endpoint(home: Path, url: str, **more: str) -> Metric:
    write_judge(home, url, tries=1)
    settings = "".join(f",{key}={text}" for key, text in more.items())
    return bound_metrics([build(f"followup-endpoint:lm=local{settings}")], ModelRegistry(Settings(home=home)))[0]


def test_an_endpoint_gives_prompts_back_with_their_probabilities(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("+ oh nice\n- what\n")
    with endpoint(echoed) as fake:
        metric = bound_to_endpoint(tmp_path, fake.url, followups=str(own))
        assert scores(metric, ["a boat"], "hello there") == pytest.approx([-(0.2 + 0.4) / 2 + 0.4])
        assert sorted(received.body["prompt"] for received in fake.received) == [
            "hello there\na boat\noh nice",
            "hello there\na boat\nwhat",
        ]
        assert {received.path for received in fake.received} == {"/v1/completions"}
        assert all(received.body["echo"] is True for received in fake.received)
        again = bound_to_endpoint(tmp_path, fake.url, followups=str(own))
        assert scores(again, ["a boat"], "hello there") == pytest.approx([0.1])
        assert len(fake.received) == 2  # answers are stored
        assert "lm:local#" in Signature.of(metric).full


def test_the_tokens_of_a_text_are_those_that_overlap_its_last_occurrence() -> None:
    tokens = [AnswerToken(text=text, logprob=-place) for place, text in enumerate(["<s>", "no", "\nno", " way", "!"])]
    assert logs_of_last(tokens, "no way").tolist() == [-2.0, -3.0]
    assert logs_of_last(tokens, "way!").tolist() == [-3.0, -4.0]
    assert logs_of_last(tokens, "no other").tolist() == []


def test_an_endpoint_without_log_probabilities_is_refused(tmp_path: Path) -> None:
    def silent(received: Received) -> dict[str, object]:
        answer = echoed(received)
        answer["choices"][0]["logprobs"] = None  # type: ignore[index]
        return answer

    with endpoint(silent) as fake, refusing(BadInput, "local"):
        scores(bound_to_endpoint(tmp_path, fake.url), ["a boat"])


def test_a_reply_of_which_a_follow_up_failed_has_no_score(tmp_path: Path) -> None:
    def refused(received: Received) -> Sent | dict[str, object]:
        return Sent(status=400, body={"error": "too long"}) if "sail" in received.body["prompt"] else echoed(received)

    with endpoint(refused) as fake:
        metric = bound_to_endpoint(tmp_path, fake.url)
        found = scores(metric, ["a boat", "a sail"])
        assert np.isfinite(found).tolist() == [True, False]
        assert metric.undefined().code == "no_likelihood"


def test_a_chat_endpoint_that_knows_no_completions_gives_no_score(tmp_path: Path) -> None:
    def chat_alone(_: Received) -> Sent | dict[str, object]:
        return openai("What?")

    with endpoint(chat_alone) as fake:
        assert np.isnan(scores(bound_to_endpoint(tmp_path, fake.url), ["a boat"])).all()
