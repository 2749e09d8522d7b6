"""Protocols, forms and items: what is accepted, and what an error says of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.extras.studies.protocol.study_form import (
    StudyQuestion,
    checked_answer,
    checked_answers,
    find_form,
    form_of,
    missing_answers,
)
from refaug.extras.studies.protocol.study_items import items_sha256, units_of
from refaug.extras.studies.protocol.study_protocol import StudyProtocol
from refaug.extras.studies.records import StudyKind
from refaug.extras.studies.report.numbers import protocol_factors

CHAT = {"kind": "chat", "bots": ["a", "b"]}
ONE = {"id": "q", "text": "How?", "type": "likert"}
ODD = {"value": "odd", "text": "Odd"}
LABELS = {"id": "flags", "text": "What is wrong?", "type": "labels", "options": [ODD]}


def form(*questions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "f", "questions": list(questions), **more}


def test_built_in_forms_ask_what_their_names_say() -> None:
    asked = {
        "chat-quality-5": ["quality", "diversity", "fluency", "relatedness", "empathy", "comment"],
        "prefer-dialogue-4": ["longer_talk", "interesting", "humanlike", "knowledgeable", "reason"],
        "prefer-reply-4": ["quality", "fluency", "relatedness", "empathy"],
        "reply-appropriateness": ["appropriateness"],
        "reply-overall": ["overall"],
        "sliders-7": ["interesting", "enjoyable", "consistent", "repetitive", "fluent", "on_topic", "robotic"],
    }
    forms = {name: find_form(name, where="x") for name in asked}
    assert {name: [question.id for question in form.questions] for name, form in forms.items()} == asked
    assert [question.id for question in forms["sliders-7"].questions if question.reverse] == ["repetitive", "robotic"]
    for found in forms.values():
        assert set(found.texts["de"]) == set(found.by_id)
        assert found.shown_in("de-AT")["questions"][0]["text"] == found.texts["de"][found.questions[0].id]["text"]
        assert found.shown_in("fr")["questions"][0]["text"] == found.questions[0].text


def test_equal_protocols_have_one_hash_whatever_is_left_out() -> None:
    first = StudyProtocol.of(CHAT)
    assert first.sha256 == StudyProtocol.of({**CHAT, "min_turns": 3, "votes": True}).sha256
    assert first.sha256 == StudyProtocol.of(dict(first.fields)).sha256
    assert first.sha256 != StudyProtocol.of({**CHAT, "min_turns": 4}).sha256
    assert first.sha256 != StudyProtocol.of({**CHAT, "consent": "Yes?"}).sha256
    assert first.consent_sha256 != StudyProtocol.of({**CHAT, "consent": "Yes?"}).consent_sha256
    frozen = first.frozen({"a": "1", "b": "2"}, None)
    assert frozen.sha256 not in (first.sha256, first.frozen({"a": "1", "b": "3"}, None).sha256)


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"bot": []}, "bots", "one of: kind, title"),
        ({"kind": "chats"}, "chats", "chat, chat-pair"),
        ({"kind": None}, "kind", "chat-pair"),
        ({"bots": []}, "bots: no bot in a study of kind chat", "refaug bots list"),
        ({"bots": ["a", "a"]}, "listed twice", "each bot once"),
        ({"bots": ["A B"]}, "not a name of a stored bot", "a name"),
        ({"form": "chat-quality"}, "chat-quality-5", "sliders-7"),
        ({"form": form()}, "a list was expected, not 0 entries", "1 to 60"),
        ({"form": form({**ONE, "required": False})}, "none of them is required", "at least one"),
        ({"form": form({**ONE, "type": "lickert"})}, "lickert", "likert"),
        ({"form": form({**ONE, "most": 99})}, "not 2 to 11 buttons", "a slider"),
        ({"form": form(ONE, ONE)}, "there are two questions 'q'", "an id of its own"),
        ({"form": form(ONE, {**ONE, "id": "r", "show_if": {"p": 1}})}, "there is no question 'p' before", "one of: q"),
        ({"form": form({**ONE, "type": "pair"})}, "a study of kind chat has no two sides", "another type"),
        ({"form": form(ONE, {**LABELS, "scope": "task"})}, "labels are given to turns of a bot", '"scope": "turn"'),
        ({"form": form(ONE, {**LABELS, "options": []})}, "a list was expected, not 0 entries", "1 to 50"),
        ({"form": form(ONE, {**LABELS, "options": [ODD] * 51})}, "not 51 entries", "1 to 50"),
        ({"form": form({**ONE, "type": "pair", "scope": "turn"})}, "a study of kind chat has no two sides", "type"),
        ({"screening": [LABELS]}, "no turns before the first task", "not labels or spans"),
        ({"form": form({**ONE, "id": "attention"})}, "belongs to the check of attention", "another id"),
        ({"form": form(ONE, texts={"de": {"p": {"text": "?"}}})}, "p: there is no such field", "one of: q"),
        ({"min_turns": 5, "max_turns": 4}, "min_turns", "5 or more"),
        ({"min_turns": "3"}, "min_turns", "200"),
        ({"votes": "yes"}, "yes", "without quotation marks"),
        ({"ratings_per_item": 2}, "has no effect in a study of kind chat", "leave it out"),
        ({"exclude": {"failed_attention": 1}}, "needs a check that the study does not have", '"attention": 1'),
        ({"exclude": {"failed_atention": 1}}, "failed_attention", "one of"),
        ({"checks": {"degraded": 1}}, "1 is not a bot", "true, or the name"),
        ({"training": {"items": [{"turns": ["a"]}]}}, "nothing that would be right", "quality"),
        ({"training": {"items": [{"answers": {"quality": 9}}]}}, "answers.quality", "1 to 7"),
        ({"screening": [{**ONE, "type": "choice"}]}, "a list was expected", "objects"),
        ({"quotas": [{"question": "age", "value": "x", "most": 1}]}, "age", "none"),
        ({"analysis": {"factors": {"c": {"data": "x"}}}}, "factors, c: there is no such field", "one of: a, b"),
        ({"analysis": {"factors": {"a": "x"}}}, "factors with levels were expected", "movies"),
        ({"analysis": {"factors": {"a": {"bot": "x"}}}}, "cannot be the name of a factor", "data"),
        ({"analysis": {"factors": {"a": {"data": 3}}}}, "a text was expected, not int", "1 to 64"),
        ({"analysis": {"factors": {"a": {"data": "x"}, "b": {"data": "x"}}}}, "data has one level, 'x'", "movies"),
        ({"opening": "fixed"}, "openings", "openings"),
        ({"completion": {"return_url": "javascript:alert(1)"}}, "is not an address", "https://"),
        ({"pay": {"amount": 3, "currency": "euro"}}, "euro", "EUR"),
        ({"translations": {"german": {"title": "x"}}}, "is not a language", "en, de"),
        ({"consent": "x" * 100_001}, "100,001", "100,000"),
    ],
)
def test_wrong_protocols_are_refused_with_what_would_be_right(
    changes: dict[str, Any], message: str, remedy: str
) -> None:
    with pytest.raises(BadInput) as error:
        StudyProtocol.of({**CHAT, **changes})
    assert message in error.value.message, error.value.message
    assert remedy in error.value.remedy, error.value.remedy


def test_factors_of_bots_are_part_of_the_analysis_and_of_the_hash() -> None:
    factors = {"a": {"data": "movies"}, "b": {"data": "forum"}}
    protocol = StudyProtocol.of({**CHAT, "analysis": {"factors": factors}})
    assert protocol["analysis"]["factors"] == factors
    assert protocol_factors(protocol.fields) == factors
    assert StudyProtocol.of(dict(protocol.fields)).sha256 == protocol.sha256
    plain = StudyProtocol.of(CHAT)
    assert plain.sha256 == StudyProtocol.of({**CHAT, "analysis": {"factors": {}}}).sha256 != protocol.sha256
    assert "factors" not in plain["analysis"]


@pytest.mark.parametrize(
    ("changes", "answer", "stored"),
    [
        ({}, 7, 7),
        ({}, 3.0, 3),
        ({"type": "slider", "least": 0, "most": 100}, 33.5, 33.5),
        ({"type": "choice", "options": (("a", "A"), ("b", "B"))}, "b", "b"),
        ({"type": "text"}, "مرحبا 😀", "مرحبا 😀"),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [{"start": 0, "end": 2, "label": "odd"}], None),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [], None),
        (
            {"type": "spans", "options": (("odd", "Odd"), ("rude", "Rude"))},
            [{"label": "rude", "start": 3, "end": 4}, {"start": 0, "end": 2, "label": "odd"}],
            [{"start": 0, "end": 2, "label": "odd"}, {"start": 3, "end": 4, "label": "rude"}],
        ),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, ["b", "a"], ["a", "b"]),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, [], None),
        ({}, None, None),
    ],
)
def test_possible_answers_are_kept(changes: dict[str, Any], answer: Any, stored: Any) -> None:
    question = StudyQuestion(**{"id": "q", "text": "?", "type": "likert", **changes})
    assert checked_answer(question, answer) == (answer if stored is None else stored)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, 8),
        ({}, 2.5),
        ({}, True),
        ({}, "7"),
        ({}, float("nan")),
        ({"type": "choice", "options": (("a", "A"), ("b", "B"))}, "c"),
        ({"type": "choice", "options": (("a", "A"), ("b", "B"))}, ["a"]),
        ({"type": "text"}, "x" * 20_001),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [{"start": 2, "end": 2, "label": "odd"}]),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [{"start": 0, "end": 2, "label": "even"}]),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [{"start": 0, "end": 2, "label": "odd"}] * 2),
        ({"type": "spans", "options": (("odd", "Odd"),)}, [{"start": True, "end": 2, "label": "odd"}]),
        (
            {"type": "spans", "options": (("odd", "Odd"),)},
            [{"start": n, "end": n + 1, "label": "odd"} for n in range(201)],
        ),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, ["a", "a"]),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, ["c"]),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, [["a"]]),
        ({"type": "labels", "options": (("a", "A"), ("b", "B"))}, "a"),
    ],
)
def test_impossible_answers_are_refused(changes: dict[str, Any], answer: Any) -> None:
    question = StudyQuestion(**{"id": "q", "text": "?", "type": "likert", **changes})
    with refusing(BadInput, "answers.q"):
        checked_answer(question, answer)


def test_spans_end_where_their_turn_ends_counted_in_code_points() -> None:
    marks = form_of(form(ONE, {**LABELS, "type": "spans"}), where="x")
    span = {"start": 3, "end": 5, "label": "odd"}
    assert checked_answers(marks, {"flags": [span]}, ("turn",), "So 😀!") == {"flags": [span]}  # 6 code units of UTF-16
    with refusing(BadInput, "answers.flags[0]", "an end of at most 5"):
        checked_answers(marks, {"flags": [{**span, "end": 6}]}, ("turn",), "So 😀!")


def test_labels_and_spans_are_about_turns_need_no_answer_and_may_be_none() -> None:
    why = {**ONE, "id": "why", "scope": "turn", "show_if": {"flags": ["odd"]}}
    asked = form_of(form(ONE, LABELS, why), where="x")
    assert [(question.scope, question.required) for question in asked.questions][1] == ("turn", False)
    assert missing_answers(asked.questions[1:], {"flags": []}) == []
    assert missing_answers(asked.questions[1:], {"flags": ["odd"]}) == ["why"]
    must = form_of(form(ONE, {**LABELS, "required": True}), where="x").questions[1:]
    assert (missing_answers(must, {}), missing_answers(must, {"flags": []})) == (["flags"], [])
    for kind in ("chat-pair", "rate-dialogue", "pair-dialogue", "label-turns"):
        bots = {"bots": ["a", "b"]} if kind == "chat-pair" else {}
        assert StudyProtocol.of({"kind": kind, "form": form(ONE, LABELS), **bots}).form.by_id["flags"].values == (
            "odd",
        )
    with refusing(BadInput, "one turn has no two sides"):
        two = {"kind": "chat-pair", "bots": ["a", "b"]}
        StudyProtocol.of({**two, "form": form(ONE, {**ONE, "id": "r", "type": "pair", "scope": "turn"})})
    for kind in ("pair-reply", "rate-reply", "rate-reference"):
        with refusing(BadInput, "shows no dialogue with turns"):
            StudyProtocol.of({"kind": kind, "form": form(ONE, LABELS)})


def test_hidden_questions_need_no_answer() -> None:
    asked = form_of(
        form(ONE, {**ONE, "id": "why", "type": "text", "required": True, "show_if": {"q": [1, 2]}}), where="x"
    )
    assert missing_answers(asked.questions, {}) == ["q"]
    assert missing_answers(asked.questions, {"q": 5}) == []
    assert missing_answers(asked.questions, {"q": 1}) == ["why"]
    assert missing_answers(asked.questions, {"q": 1, "why": " "}) == ["why"]
    with refusing(BadInput, "why"):
        checked_answers(asked, {"whi": "x"}, ("task",))
    chain = form(ONE, {**ONE, "id": "why", "show_if": {"q": 1}}, {**ONE, "id": "more", "show_if": {"why": 2}})
    questions = form_of(chain, where="x").questions
    assert missing_answers(questions, {"q": 1, "why": 2}) == ["more"]
    assert missing_answers(questions, {"q": 3, "why": 2}) == []  # hidden with the one that shows it


def test_items_become_units() -> None:
    replies = [{"id": "d", "turns": ["Hi", "Ho", "Hm?"], "replies": {"b": "x", "a": "y", "c": "z"}}]
    pairs = units_of(StudyKind.PAIR_REPLY, replies)
    assert [unit.systems for unit in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [unit.id for unit in units_of(StudyKind.RATE_REPLY, replies)] == ["d/b", "d/a", "d/c"]
    (unit, _) = units_of(StudyKind.RATE_REFERENCE, [{"utterance": "Hi", "references": ["a", "b", "a"]}])
    assert unit.payload == {"turns": [{"role": "participant", "text": "Hi"}], "reference": "a"}
    dialogues = [{"id": f"{bot}{n}", "bot": bot, "turns": ["Hi", f"{bot}{n}"]} for bot in "ba" for n in range(2)]
    paired = units_of(StudyKind.PAIR_DIALOGUE, dialogues)
    assert [(unit.id, unit.systems) for unit in paired] == [("a0 b0", ("a", "b")), ("a1 b1", ("a", "b"))]
    assert [turn["role"] for turn in paired[0].payload["dialogues"]["a"]] == ["participant", "bot"]
    assert items_sha256(paired) == items_sha256(units_of(StudyKind.PAIR_DIALOGUE, dialogues))
    assert items_sha256(paired) != items_sha256(paired[:1])


@pytest.mark.parametrize(
    ("kind", "items", "message"),
    [
        (StudyKind.RATE_REPLY, [{"turns": ["a"]}], "items[0]"),
        (StudyKind.RATE_REPLY, [{"turns": [], "replies": {"a": "b"}}], "items[0]"),
        (StudyKind.RATE_REPLY, [{"turn": ["a"]}], "turns"),
        (StudyKind.PAIR_REPLY, [{"turns": ["a"], "replies": {"a": "b"}}], "200"),
        (StudyKind.RATE_DIALOGUE, [{"turns": ["a", " "], "bot": "x"}], "turns[1]"),
        (StudyKind.RATE_DIALOGUE, [{"turns": ["a"]}], "None"),
        (StudyKind.RATE_DIALOGUE, [{"id": "d", "turns": ["a"], "bot": "x"}] * 2, "d"),
        (StudyKind.PAIR_DIALOGUE, [{"turns": ["a"], "bot": "x"}], "all of one bot"),
        (StudyKind.RATE_REFERENCE, ["x"], "an object was expected"),
    ],
)
def test_wrong_items_are_refused(kind: StudyKind, items: list[Any], message: str) -> None:
    with refusing(BadInput, message):
        units_of(kind, items)
