"""Each rule on people whom it leaves out, on those whom it keeps, and on those whom it cannot judge."""

from refusals import refusing
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput
from refaug.extras.studies.exclusions import exclusions
from refaug.extras.studies.questions import protocol_questions

PAIR = {"id": "better", "text": "better", "type": "pair"}
TURNED = {"id": "robotic", "text": "robotic", "type": "slider", "least": 0, "most": 100, "reverse": True}
SLIDER = {"id": "fun", "text": "fun", "type": "slider", "least": 0, "most": 100}


def applied(tasks, rules, *questions):
    return exclusions(tasks, rules, protocol_questions(protocol(*questions), tasks))


def rules_of(found, participant):
    return [reason.rule for reason in found.reasons.get(participant, ())]


def test_a_failed_check_of_attention_leaves_out():
    tasks = [
        study_task("P-1", answers={"quality": 3, "attention": True}),
        study_task("P-2", answers={"quality": 3, "attention": False}),
        study_task("P-2", answers={"quality": 3, "attention": True}),
        study_task("P-3", answers={"quality": 3}),
    ]
    found = applied(tasks, {"failed_attention": 1}, "quality")
    assert list(found.reasons) == ["P-2"]
    assert found.reasons["P-2"][0].detail == "1 of 2 attention checks failed"
    assert found.judged["failed_attention"] == 2
    assert not applied(tasks, {"failed_attention": 2}, "quality").reasons


def rated(participant, degraded, others):
    """Return tasks with two sliders each, the second of them reversed."""
    tasks = [study_task(participant, answers={"fun": fun, "robotic": 100 - fun - 1}) for fun in others]
    return [
        *tasks,
        study_task(participant, ("worse",), {"fun": degraded, "robotic": 100 - degraded - 1}, check="degraded"),
    ]


def test_a_degraded_bot_that_is_not_rated_lower_leaves_out():
    tasks = [*rated("P-1", 10, [60, 70, 80, 50]), *rated("P-2", 65, [60, 70, 80, 50]), *rated("P-3", 5, [])]
    found = applied(tasks, {"degraded_not_lower": True}, SLIDER, TURNED)
    assert rules_of(found, "P-1") == []
    assert rules_of(found, "P-2") == ["degraded_not_lower"]
    assert found.judged["degraded_not_lower"] == 2


def test_scales_of_several_widths_are_compared_as_shares():
    narrow = {"id": "quality", "text": "q", "type": "likert", "least": 1, "most": 7}
    worse = [study_task("P-1", ("worse",), {"fun": 5, "quality": 1}, check="degraded")]
    tasks = [*(study_task("P-1", answers={"fun": 90 + k, "quality": 6}) for k in range(4)), *worse]
    assert not applied(tasks, {"degraded_not_lower": True}, SLIDER, narrow).reasons


def test_a_degraded_bot_beside_another_is_known_by_the_choice():
    plain = [study_task("P-1", ("a", "b"), {"better": "left"})]
    chosen = study_task("P-1", ("a", "worse"), {"better": "right"}, check="degraded")
    passed = study_task("P-1", ("worse", "b"), {"better": "right"}, check="degraded")
    assert rules_of(applied([*plain, chosen], {"degraded_not_lower": True}, PAIR), "P-1") == ["degraded_not_lower"]
    assert not applied([*plain, passed], {"degraded_not_lower": True}, PAIR).reasons


def test_the_bot_beside_the_degraded_one_is_known_from_the_tasks_of_everybody():
    plain = [study_task("P-0", ("a", "b"), {"better": "left"})]
    for person, better in (("P-1", "left"), ("P-2", "right")):
        plain.append(study_task(person, ("b", "c"), {"better": "left"}))
        plain.append(study_task(person, ("a", "worse"), {"better": better}, check="degraded"))
    found = applied(plain, {"degraded_not_lower": True}, PAIR)
    assert (list(found.reasons), found.judged["degraded_not_lower"]) == (["P-2"], 2)
    found = applied([task for task in plain if task.participant != "P-0"], {"degraded_not_lower": True}, PAIR)
    assert (dict(found.reasons), found.judged["degraded_not_lower"]) == ({}, 0)  # which bot is worse is unknown


def test_one_answer_everywhere_leaves_out():
    tasks = [
        *(study_task("P-1", answers={"quality": 4, "fluency": 4, "empathy": 4}) for _ in range(2)),
        *(study_task("P-2", answers={"quality": 4, "fluency": 4, "empathy": 5}) for _ in range(2)),
        study_task("P-3", answers={"quality": 4, "fluency": 4, "empathy": 4}),
    ]
    found = applied(tasks, {"same_answer_everywhere": True}, "quality", "fluency", "empathy")
    assert list(found.reasons) == ["P-1"]
    assert found.reasons["P-1"][0].detail == "4 in all 6 answers"
    assert found.judged["same_answer_everywhere"] == 2


def test_one_side_everywhere_leaves_out():
    tasks = [study_task("P-1", ("a", "b"), {"better": "left"}) for _ in range(6)]
    tasks += [study_task("P-2", ("a", "b"), {"better": side}) for side in ("left", "right") * 3]
    tasks += [study_task("P-3", ("a", "b"), {"better": "left"}) for _ in range(5)]
    found = applied(tasks, {"same_answer_everywhere": True}, PAIR)
    assert {participant: reasons[0].detail for participant, reasons in found.reasons.items()} == {
        "P-1": "the same side in all 6 pairs"
    }


def test_sides_are_judged_by_pairs_and_ties_are_no_side():
    several = [{"id": name, "text": name, "type": "pair"} for name in ("kinder", "wiser", "shorter", "nicer")]
    alike = {question["id"]: "left" for question in several}
    tasks = [study_task("P-1", ("a", "b"), alike) for _ in range(2)]
    tasks += [study_task("P-2", ("a", "b"), {"nicer": "tie"}) for _ in range(6)]
    tasks += [study_task("P-3", ("a", "b"), {**alike, "nicer": "tie"}) for _ in range(6)]
    found = applied(tasks, {"same_answer_everywhere": True}, *several)
    assert {participant: reasons[0].detail for participant, reasons in found.reasons.items()} == {
        "P-3": "the same side in all 6 pairs"
    }
    assert found.judged["same_answer_everywhere"] == 1


def test_haste_leaves_out_by_the_median():
    turns = ["one", "two", "three", "four"]  # two messages of the participant
    tasks = [
        *(study_task("P-1", answers={"quality": 3}, turns=turns, seconds=seconds) for seconds in (3.0, 3.5, 90.0)),
        *(study_task("P-2", answers={"quality": 3}, turns=turns, seconds=seconds) for seconds in (3.0, 9.0, 9.0)),
        study_task("P-3", answers={"quality": 3}, turns=turns, seconds=None),
    ]
    found = applied(tasks, {"seconds_per_turn_below": 2}, "quality")
    assert list(found.reasons) == ["P-1"]
    assert found.reasons["P-1"][0].detail == "1.75 seconds a turn, in the median"
    assert found.judged["seconds_per_turn_below"] == 2
    assert list(applied(tasks, {"seconds_per_task_below": 4}, "quality").reasons) == ["P-1"]


def test_a_repeated_task_is_compared_with_the_first_time():
    first = study_task("P-1", ("a",), {"quality": 6})
    again = study_task("P-1", ("a",), {"quality": 2}, check="repeat")
    found = applied([first, again], {"repeat_differs_by": 3}, "quality")
    assert found.reasons["P-1"][0].detail == "answers to a repeated task differ by 4 on average"
    assert not applied([first, again], {"repeat_differs_by": 4}, "quality").reasons
    other = study_task("P-1", ("b",), {"quality": 6})
    assert applied([other, again], {"repeat_differs_by": 3}, "quality").judged["repeat_differs_by"] == 0


def test_copied_messages_leave_out():
    honest = ["I went to the sea", "how was it", "It was warm there", "how nice of it", "Where do you go", "nowhere"]
    echoing = ["I went to the sea", "how was it", "How was it?", "how nice of it", "how nice of it!", "nowhere"]
    tasks = [study_task("P-1", turns=honest), study_task("P-2", turns=echoing)]
    found = applied(tasks, {"copied_messages": 0.5}, "quality")
    assert list(found.reasons) == ["P-2"]
    assert found.reasons["P-2"][0].detail == "67% of 3 messages are copies"


def test_a_reason_in_a_record_leaves_out_and_switched_off_rules_do_not():
    tasks = [study_task("P-1", answers={"quality": 3}, excluded="asked to be left out"), study_task("P-2")]
    found = applied(tasks, {"same_answer_everywhere": False}, "quality")
    assert [(reason.rule, reason.detail) for reason in found.reasons["P-1"]] == [("by_hand", "asked to be left out")]
    assert found.by_rule() == {"by_hand": 1}
    assert [task.participant for task in found.kept(tasks)] == ["P-2"]


def test_an_unknown_rule_is_refused():
    with refusing(BadInput, "exclude.too_slow"):
        applied([study_task()], {"too_slow": 3}, "quality")
    with refusing(BadInput, "exclude.failed_attention"):
        applied([study_task()], {"failed_attention": True}, "quality")
