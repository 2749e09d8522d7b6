"""Shares of turns with labels, and agreement about them, held to computations by hand."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from study_tasks import protocol, study_task

from refaug.extras.studies.figures.disagreements import agreement_cost, label_agreement
from refaug.extras.studies.figures.turn_labels import labels_cost
from refaug.extras.studies.report.numbers import StudyAnalysis, report_cost, study_report
from refaug.extras.studies.report.pages import study_page

OPTIONS = [{"value": "odd", "text": "Odd"}, {"value": "rude", "text": "Rude"}]
FLAGS = {"id": "flags", "text": "What is wrong?", "type": "labels", "scope": "turn", "options": OPTIONS}
PARTS = {"id": "parts", "text": "Where?", "type": "spans", "scope": "turn", "options": OPTIONS}
FORM = protocol("quality", FLAGS, PARTS)
FEW_DRAWS = StudyAnalysis(draws=200)


def dialogue(participant, bot, labels, *, unit=None, answers=None):
    """A finished task with a reply for each of these answers; None where a turn has none."""
    turns = [{"n": 1, "role": "participant", "text": "So?"}]
    for place, given in enumerate(labels):
        turn = {"n": place + 2, "role": "bot", "text": "Well, no."}
        turns.append(turn if given is None else {**turn, "labels": given})
    more = {} if unit is None else {"kind": "label-turns", "item": {"id": unit, "unit": unit}}
    return study_task(participant, (bot,), answers, sides=[{"side": "one", "turns": turns}], **more)


def drawn(random, share):
    return [label for label in ("odd", "rude") if random.random() < share]


def many_tasks(people=12):
    random = np.random.default_rng(3)
    tasks = []
    for person in range(people):
        for bot, share in (("a", 0.2), ("b", 0.6)):
            given = [None if random.random() < 0.1 else {"flags": drawn(random, share)} for _ in range(4)]
            tasks.append(dialogue(f"P-{person}", bot, given, answers={"quality": 4}))
    return tasks


def test_shares_are_those_of_all_turns_and_intervals_those_of_drawn_participants():
    tasks = many_tasks()
    figures = study_report(tasks, FORM, FEW_DRAWS)["analyses"]["all"]["labels"]
    assert (list(figures), figures["flags"]["type"], figures["flags"]["spans"]) == (["flags"], "labels", None)
    given, turns = Counter(), Counter()
    for task in tasks:
        for turn in task.sides[0].turns[1:]:
            turns[task.bots[0].bot] += 1
            given.update((task.bots[0].bot, label) for label in (turn.labels or {}).get("flags", []))
    for label in ("odd", "rude"):
        means = {row["bot"]: row for row in figures["flags"]["labels"][label]["means"]}
        for bot in ("a", "b"):
            assert means[bot]["n"] == turns[bot] == 48
            assert means[bot]["participants"] == 12
            assert means[bot]["mean"] == pytest.approx(given[bot, label] / turns[bot])
            assert means[bot]["low"] < means[bot]["mean"] < means[bot]["high"]
        (gap,) = figures["flags"]["labels"][label]["differences"]
        assert (gap["first"], gap["second"]) == ("b", "a")
        assert gap["difference"] == pytest.approx((given["b", label] - given["a", label]) / 48)
        assert gap["p_holm"] < 0.05


def test_intervals_are_wider_where_one_participant_gives_a_label_to_every_turn():
    alike = [dialogue(f"P-{person}", "a", [{"flags": ["odd"] if person < 6 else []}] * 8) for person in range(12)]
    mixed = [dialogue(f"P-{person}", "a", [{"flags": ["odd"] * (n % 2)} for n in range(8)]) for person in range(11)]
    mixed.append(dialogue("P-11", "a", [{"flags": ["odd"] * (n % 4 == 0)} for n in range(8)]))
    widths = []
    for tasks in (alike, mixed):
        (row,) = study_report(tasks, FORM, FEW_DRAWS)["analyses"]["all"]["labels"]["flags"]["labels"]["odd"]["means"]
        widths.append(row["high"] - row["low"])
    assert widths[0] > 5 * widths[1]


def test_a_span_gives_its_turn_the_label_once_and_is_counted_as_a_span():
    spans = [{"start": 0, "end": 4, "label": "odd"}, {"start": 6, "end": 8, "label": "odd"}]
    tasks = [dialogue("P-1", "a", [{"parts": spans}, {"parts": []}, None])]
    figures = study_report(tasks, FORM, FEW_DRAWS)["analyses"]["all"]["labels"]["parts"]
    (odd,), (rude,) = (figures["labels"][label]["means"] for label in ("odd", "rude"))
    assert figures["spans"] == {"a": 2}
    assert (odd["n"], odd["mean"], odd["low"], odd["why"]) == (3, pytest.approx(1 / 3), None, "few")
    assert rude["mean"] == 0


def test_a_fixed_opening_and_unfinished_tasks_are_not_counted():
    turns = [
        {"n": 1, "role": "bot", "text": "Well?"},
        {"n": 2, "role": "participant", "text": "So?"},
        {"n": 3, "role": "bot", "text": "No.", "labels": {"flags": ["odd"]}},
    ]
    side = [{"side": "one", "turns": turns}]
    tasks = [study_task("P-1", ("a",), sides=side), study_task("P-1", ("a",), sides=side, state="skipped")]
    for opening, share, n in (("fixed", 1, 1), ("bot", 0.5, 2)):
        form = {**FORM, "opening": opening}
        (row,) = study_report(tasks, form, FEW_DRAWS)["analyses"]["all"]["labels"]["flags"]["labels"]["odd"]["means"]
        assert (row["mean"], row["n"]) == (share, n)


def nominal_alpha(rows):
    """Krippendorff's α of lists of answers, by its definition: pairs within rows against pairs of all answers."""
    rows = [row for row in rows if len(row) > 1]
    answers = [answer for row in rows for answer in row]
    within = sum(sum(one != other for one, other in permutations(row, 2)) / (len(row) - 1) for row in rows)
    between = sum(one != other for one, other in permutations(answers, 2)) / (len(answers) - 1)
    return 1 - within / between


def test_agreement_about_a_label_is_the_nominal_alpha_over_turns_that_several_read():
    random = np.random.default_rng(5)
    rows = {}
    tasks = []
    for unit in range(6):
        bot = "ab"[unit % 2]
        for person in range(3 if unit else 1):  # the first dialogue is read by one alone
            given = [drawn(random, 0.8 if (unit + n) % 2 else 0.2) for n in range(3)]
            tasks.append(dialogue(f"P-{person}", bot, [{"flags": labels} for labels in given], unit=f"d{unit}"))
            for n, labels in enumerate(given):
                rows.setdefault((unit, n), []).append(labels)
    figures = {figure.question: figure for figure in label_agreement(tasks, FORM)}
    for label in ("odd", "rude"):
        figure = figures[f"flags: {label}"]
        assert (figure.rows_are, figure.rows, figure.participants) == ("turns", 15, 3)
        expected = nominal_alpha([[label in labels for labels in own] for own in rows.values()])
        assert figure.alpha_interval.value == pytest.approx(expected)
        assert figure.alpha_ordinal.value == pytest.approx(expected)
    assert figures["parts: odd"].alpha_interval.value is None  # nobody has marked anything
    assert label_agreement(many_tasks(), FORM) == []  # everybody has chats of their own


def test_turns_whose_question_was_hidden_are_not_counted():
    why = {**FLAGS, "id": "why", "show_if": {"flags": ["odd"]}}
    given = [{"flags": ["odd"], "why": ["rude"]}, {"flags": ["odd", "rude"]}, {"flags": ["rude"]}, None]
    report = study_report([dialogue("P-1", "a", given)], protocol(FLAGS, why), FEW_DRAWS)
    (row,) = report["analyses"]["all"]["labels"]["why"]["labels"]["rude"]["means"]
    assert (row["mean"], row["n"]) == (0.5, 2)


def test_a_choice_about_each_turn_is_reported_by_its_answers():
    sense = {**FLAGS, "id": "sense", "type": "choice"}
    tasks = [dialogue("P-1", "a", [{"sense": "odd"}, {"sense": "rude"}, {"sense": "rude"}])]
    figures = study_report(tasks, protocol(sense), FEW_DRAWS)["analyses"]["all"]["labels"]["sense"]["labels"]
    assert [figures[label]["means"][0]["mean"] for label in ("odd", "rude")] == pytest.approx([1 / 3, 2 / 3])


def test_the_cost_of_labels_grows_with_turns_labels_and_draws():
    tasks = many_tasks()
    assert labels_cost(tasks, FORM, 200) == 4 * (20 * 96 + 0.25 * 200 * 12)
    assert labels_cost(tasks, {**FORM, "analysis": {"cluster": "none"}}, 200) == 4 * (20 * 96 + 0.25 * 200 * 96)
    plain = protocol("quality")
    assert labels_cost(tasks, plain, 200) == 0
    assert report_cost(tasks, FORM, 200) > report_cost(tasks, plain, 200) + 4 * labels_cost(tasks, FORM, 200)
    assert agreement_cost(tasks, FORM) == agreement_cost(tasks, plain)
    shared = [dialogue("P-1", "a", [None] * 3, unit="d"), dialogue("P-2", "a", [None] * 3, unit="d")]
    assert agreement_cost(shared, FORM) - agreement_cost(shared, plain) == 4 * (50 * 8 + 2 * 4 * 2)


def test_the_page_of_a_report_has_a_plot_and_tables_of_each_question_about_turns():
    page = study_page(study_report(many_tasks(), FORM, FEW_DRAWS))
    for text in ("What is wrong?", "Odd · a", "Share of turns with a label", "Rude · b", "Differences"):
        assert text in page, text
