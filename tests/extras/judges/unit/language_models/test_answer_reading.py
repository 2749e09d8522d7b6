"""What answers of judges say, and what they do not say."""

from __future__ import annotations

from math import log

import pytest
from endpoints import number_logprobs, openai

from refaug.bots.endpoint.chat import AnswerToken, ChatAnswer, read_answer
from refaug.extras.judges.language_models.answer_reading import read_choice, read_ratings
from refaug.extras.judges.language_models.rubric import rubric_of
from refaug.metrics.base import Problem

CRITERIA = [{"name": "fit", "question": "?"}]
JSON = rubric_of({"name": "r", "task": "t", "scale": [1, 5], "criteria": CRITERIA}, where="f")
NUMBER = rubric_of({"name": "r", "task": "t", "scale": [1, 5], "criteria": CRITERIA, "answer": "number"}, where="f")
BOTH = rubric_of(
    {"name": "r", "task": "t", "scale": [0, 9], "criteria": [*CRITERIA, {"name": "tone", "question": "?"}]}, where="f"
)


def read(text: str, rubric=JSON, **more):
    ratings = read_ratings(ChatAnswer(text=text, finish=more.pop("finish", "stop"), **more), rubric)
    return ratings.code.removeprefix("judge_") if isinstance(ratings, Problem) else dict(ratings)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"fit": 4}', {"fit": 4}),
        (' {"fit": 4.0, "why": "6 reasons"}\n', {"fit": 4}),
        ('```json\n{"fit": 2}\n```', {"fit": 2}),
        ('{"fit": "4"}', "nonsense"),
        ('{"fit": true}', "nonsense"),
        ('{"fit": null}', "nonsense"),
        ('{"fitness": 4}', "nonsense"),
        ("4", "nonsense"),
        ("[4]", "nonsense"),
        ('I would say {"fit": 4}', "nonsense"),
        ('{"fit": 6}', "off_scale"),
        ('{"fit": 0}', "off_scale"),
        ('{"fit": 3.5}', "off_scale"),
        ('{"fit": -4}', "off_scale"),
        ('{"fit": NaN}', "nonsense"),
        ("", "empty"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("As an AI, I do not judge people.", "refused"),
    ],
)
def test_json_is_read_strictly(text: str, outcome: object) -> None:
    assert read(text) == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("4", {"fit": 4}), (" 4.\n", {"fit": 4}), ("4/5", "nonsense"), ("four", "nonsense"), ("Score: 4", "nonsense"),
        ("There are 2 reasons for a 4", "nonsense"), ("9", "off_scale"), ("4.5", "off_scale"), ("٤", {"fit": 4}),
    ],
)  # fmt: skip
def test_a_number_is_read_strictly(text: str, outcome: object) -> None:
    assert read(text, NUMBER) == outcome


def test_every_criterion_is_needed() -> None:
    assert read('{"tone": 9, "fit": 0}', BOTH) == {"fit": 0, "tone": 9}
    assert read('{"fit": 4}', BOTH) == "nonsense"


def test_the_reason_is_what_the_endpoint_tells() -> None:
    assert read("", refusal="no") == "refused"
    assert read("", finish="content_filter") == "refused"
    assert read('{"fit": ', finish="length") == "truncated"
    assert read("", finish="tool_calls", calls_tools=True) == "tool_call"
    assert read('{"fit": 4}', finish="length") == {"fit": 4}


def test_thinking_in_front_does_not_count() -> None:
    import json  # noqa: PLC0415

    def through(text: str):
        answer = read_answer(200, "application/json", json.dumps(openai(text)).encode())
        return read_ratings(answer, JSON)

    assert through('<think>{"fit": 1}? No: 5.</think>\n{"fit": 5}') == {"fit": 5}
    assert through('<think>{"fit": 1}').code == "judge_empty"


# ── probabilities ─────────────────────────────────────────────────────────────────────────────────────────────────


def tokens(text: str, number: str, probabilities: dict[str, float]) -> tuple[AnswerToken, ...]:
    import json  # noqa: PLC0415

    body = json.dumps(openai(text, logprobs=number_logprobs(text, number, probabilities))).encode()
    return read_answer(200, "application/json", body).tokens


def expected(text: str, listed: tuple[AnswerToken, ...], rubric=JSON):
    return read_ratings(ChatAnswer(text=text, finish="stop", tokens=listed), rubric, is_expected=True)


def test_the_expected_rating_is_the_mean_by_probabilities() -> None:
    probabilities = {"4": 0.5, " 5": 0.2, "3": 0.1, "5": 0.1, "x": 0.1}
    text = '{"fit": 4}'
    mean = (4 * 0.5 + 5 * 0.3 + 3 * 0.1) / 0.9
    assert expected(text, tokens(text, "4", probabilities)) == {"fit": pytest.approx(mean)}


def test_the_last_place_of_the_number_counts() -> None:
    first = AnswerToken(text="1", logprob=log(0.9), alternatives=(("1", log(0.9)),))
    last = AnswerToken(text="5", logprob=log(0.6), alternatives=(("5", log(0.6)), ("4", log(0.4))))
    listed = tuple(
        part if isinstance(part, AnswerToken) else AnswerToken(text=part, logprob=0.0)
        for part in ('<think>{"fit": ', first, '}</think>{"fit": ', last, "}")
    )
    assert expected('{"fit": 5}', listed) == {"fit": pytest.approx(4.6)}


@pytest.mark.parametrize(
    "listed",
    [
        (),
        (AnswerToken(text='{"fit": 4}', logprob=0.0),),  # the number is part of a longer token
        tuple(AnswerToken(text=part, logprob=0.0) for part in ('{"fit": ', "3", "}")),  # of another answer
        (
            AnswerToken(text='{"fit": ', logprob=0.0),
            AnswerToken(text="4", logprob=log(0.3), alternatives=(("4", log(0.3)), ("four", log(0.7)))),
        ),
    ],
)
def test_without_usable_probabilities_there_is_no_expected_rating(listed: tuple[AnswerToken, ...]) -> None:
    assert expected('{"fit": 4}', listed).code == "judge_no_probabilities"


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('{"better": "A"}', "A"),
        ('{"better": "b"}', "B"),
        ('{"better": "tie"}', "tie"),
        ('{"better": "C"}', None),
        ("A", None),
    ],
)
def test_choices(text: str, choice: str | None) -> None:
    read_text = read_choice(ChatAnswer(text=text, finish="stop"))
    assert read_text == choice if choice else isinstance(read_text, Problem)
