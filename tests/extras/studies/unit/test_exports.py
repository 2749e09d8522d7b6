"""Every format of an export: read back where something reads it, and refused where there is nothing to write."""

import csv
import io

import orjson
import pytest
from refusals import refusing
from study_tasks import protocol, study_task

from refaug.core.errors import BadInput, Usage
from refaug.extras.conversations.reading import read_conversations
from refaug.extras.studies.exports import COLUMNS, ExportFormat, export_study
from refaug.extras.studies.imports import imported_conversations
from refaug.extras.studies.records import read_tasks
from refaug.scoring.items import read_items

PAIR = {"id": "better", "text": "b", "type": "pair"}
FORM = protocol("quality", PAIR, exclude={"failed_attention": 1})


def exported(tasks, form, *, frozen=FORM, **options):
    return b"".join(export_study(tasks, frozen, ExportFormat(form), **options))


def lines(tasks, form, **options):
    return [orjson.loads(line) for line in exported(tasks, form, **options).splitlines()]


def chat(participant="P-1", bot="a", quality=4, *, votes=(None, 1), texts=("hello", "hi", "bye", "see you"), **fields):
    turns = [
        {
            "n": n,
            "role": "bot" if n % 2 == 0 else "participant",
            "text": text,
            "at": f"2026-01-02T03:04:0{n}.000Z",
            "ms": None,
            "vote": votes[n // 2 - 1] if n % 2 == 0 else None,
        }
        for n, text in enumerate(texts, 1)
    ]
    sides = [{"side": "one", "turns": turns}]
    return study_task(participant, (bot,), {"quality": quality, "mood": "fine"}, sides=sides, **fields)


def test_jsonl_read_back_and_exported_again_is_the_same(tmp_path):
    tasks = [chat("P-2", pilot=True), chat("P-1", state="skipped", skip_reason="tired"), chat("P-1", check="repeat")]
    path = tmp_path / "study.jsonl"
    path.write_bytes(exported(tasks, "jsonl"))
    assert exported(read_tasks(path), "jsonl") == path.read_bytes()
    assert exported(tasks[::-1], "jsonl") == path.read_bytes()
    assert [task.participant for task in read_tasks(path)] == ["P-1", "P-1", "P-2"]


def test_participants_who_are_left_out_are_in_it_unless_only_those_kept_are_wanted():
    careless = study_task("P-2", answers={"quality": 1, "attention": False})
    assert [line["participant"] for line in lines([chat(), careless], "jsonl")] == ["P-1", "P-2"]
    assert [line["participant"] for line in lines([chat(), careless], "jsonl", kept_only=True)] == ["P-1"]


def test_csv_has_an_exchange_a_row_with_the_published_columns():
    table = list(csv.reader(io.StringIO(exported([chat(texts=("hello", "=1+1", "bye", "see"))], "csv").decode())))
    assert tuple(table[0][: len(COLUMNS)]) == COLUMNS
    first, second = (dict(zip(table[0], row, strict=True)) for row in table[1:])
    assert (first["Message"], first["Response"], first["Response Rating"]) == ("hello", "'=1+1", "0")
    assert (second["Message"], second["Response"], second["Response Rating"]) == ("bye", "see", "1")
    assert orjson.loads(second["Bot Input"]) == ["hello", "=1+1", "bye"]
    assert first["Datetime"] == "2026-01-02T03:04:02.000Z"
    assert (first["Chat Rating Quality"], first["Chat Rating Empathy"], first["Answer mood"]) == ("4", "", "fine")
    assert (first["User Session Key"], first["Chatbot ID"]) == ("P-1", "a")


def test_csv_has_labels_and_spans_of_each_reply():
    turns = [
        {"n": 1, "role": "participant", "text": "So?"},
        {"n": 2, "role": "bot", "text": "Well.", "labels": {"flags": ["rude", "odd"]}},
        {"n": 3, "role": "bot", "text": "No.", "labels": {"marks": [{"start": 0, "end": 2, "label": "odd"}]}},
    ]
    task = study_task(kind="label-turns", sides=[{"side": "one", "turns": turns}])
    first, second = csv.DictReader(io.StringIO(exported([task], "csv").decode()))
    assert (first["Turn flags"], first["Turn marks"]) == ('["rude","odd"]', "")
    assert (second["Turn flags"], orjson.loads(second["Turn marks"])) == ("", turns[2]["labels"]["marks"])


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_no_cell_of_the_csv_is_a_formula(sign):
    hostile = f"{sign}HYPERLINK(1)"
    task = chat(hostile, "a", texts=(hostile, hostile))
    table = list(csv.reader(io.StringIO(exported([task], "csv").decode())))
    assert not [cell for row in table[1:] for cell in row if cell.startswith(sign)]


def rated_reply(participant, item, bot, quality):
    shown = {"id": item, "unit": f"{item}/{bot}", "turns": ["So?", "Well?"], "reply": f"{bot} says {item}"}
    return study_task(participant, (bot,), {"quality": quality}, kind="rate-reply", item=shown)


def test_items_have_one_number_a_participant_in_the_same_places(tmp_path):
    tasks = [rated_reply("P-1", "i1", "a", 2), rated_reply("P-2", "i1", "a", 4), rated_reply("P-2", "i1", "b", 6)]
    path = tmp_path / "items.jsonl"
    path.write_bytes(exported(tasks, "items"))
    (item,) = read_items(path)
    assert item.turns == ("So?", "Well?")
    assert item.replies == {"a": "a says i1", "b": "b says i1"}
    assert orjson.loads(path.read_bytes())["ratings"] == {"a": [2, 4], "b": [None, 6]}
    assert orjson.loads(path.read_bytes())["scale"] == [1, 7]


def test_items_of_chats_are_the_replies_with_votes():
    (item,) = lines([chat(votes=(None, -1))], "items")
    assert item["turns"] == ["hello", "hi", "bye"]
    assert (item["replies"], item["ratings"], item["scale"]) == ({"a": "see you"}, {"a": [-1]}, [-1, 1])
    with refusing(BadInput):
        exported([chat(votes=(None, 0))], "items")


def test_several_questions_need_one_to_be_named():
    tasks = [study_task("P-1", answers={"quality": 2, "fluency": 3}, kind="rate-reply", item={"id": "i", "reply": "x"})]
    form = protocol("quality", "fluency")
    with refusing(BadInput) as caught:
        exported(tasks, "items", frozen=form)
    assert caught.value.remedy == "question, one of: quality, fluency"
    assert lines(tasks, "items", frozen=form, question="fluency")[0]["ratings"] == {"bot-a": [3]}
    with refusing(Usage):
        exported(tasks, "jsonl", question="quality")


def test_conversations_are_read_by_the_hybrid_metric_and_imported_again(tmp_path):
    path = tmp_path / "talks.jsonl"
    silent = chat("P-3", "b", 2, texts=("hello",))  # a bot that says nothing has no conversation
    talked = [chat(), chat("P-2", "b", 6), chat("P-2", "w", 1, check="degraded"), silent]
    path.write_bytes(exported(talked, "conversations"))
    talks = list(read_conversations(path))
    assert [(talk.participant, talk.bot, dict(talk.ratings)) for talk in talks] == [
        ("P-1", "a", {"quality": 4}),
        ("P-2", "b", {"quality": 6}),
        ("P-2", "w", {"quality": 1}),
    ]
    assert talks[0].votes == (1,)
    study = imported_conversations(path, study="again")
    again = b"".join(export_study(study.tasks, study.protocol, ExportFormat.CONVERSATIONS))
    assert again == path.read_bytes()


def test_pairs_of_dialogues_are_those_shown_or_chats_of_two_bots():
    shown = study_task("P-1", ("a", "b"), {"better": "left"}, turns=["hello", "hi"])
    (line,) = lines([shown], "acute")
    assert line["speakers_to_eval"] == ["a", "b"]
    assert line["dialogue_dicts"][1]["dialogue"] == [
        {"id": "participant", "text": "hello"},
        {"id": "b", "text": "hi"},
    ]
    paired = lines([chat(bot="a"), chat(bot="a"), chat(bot="b"), chat(bot="c")], "acute")
    assert [line["speakers_to_eval"] for line in paired] == [["a", "b"], ["a", "c"], ["b", "c"]]
    with refusing(BadInput):
        exported([chat()], "acute")


def test_preferences_are_those_of_most_participants():
    shown = {"id": "i1", "turns": ["Hi.", "Hello!", "So?"], "replies": {"a": "Well.", "b": "No."}}
    votes = [("P-1", ("a", "b"), "left"), ("P-2", ("b", "a"), "right"), ("P-3", ("a", "b"), "right")]
    tasks = [study_task(p, bots, {"better": answer}, kind="pair-reply", item=shown) for p, bots, answer in votes]
    (line,) = lines(tasks, "dpo")
    assert [turn["role"] for turn in line["prompt"]] == ["user", "assistant", "user"]
    assert line["chosen"] == [{"role": "assistant", "content": "Well."}]
    assert line["rejected"] == [{"role": "assistant", "content": "No."}]
    assert (line["participants"], line["margin"]) == (3, 1)
    assert lines(tasks[1:], "dpo") == []  # one each


def test_preferences_of_ratings_are_by_their_means():
    tasks = [rated_reply("P-1", "i1", "a", 2), rated_reply("P-2", "i1", "a", 4), rated_reply("P-2", "i1", "b", 6)]
    (line,) = lines(tasks, "dpo")
    assert (line["chosen_bot"], line["rejected_bot"], line["margin"]) == ("b", "a", 3)
    with refusing(BadInput):
        exported([chat()], "dpo")


def test_weights_map_the_scale_to_minus_one_and_one():
    tasks = [
        study_task(f"P-{k}", ("human",), {"quality": number}, kind="rate-reference", item={"id": "i", "reference": "x"})
        for k, number in enumerate((7, 4, 1, 6))
    ]
    assert lines(tasks[:1], "weights") == [{"item": "i", "reference": "x", "weight": 1.0, "ratings": 1}]
    assert lines(tasks, "weights")[0]["weight"] == pytest.approx((4.5 - 4) / 3)
    with refusing(BadInput):
        exported([chat()], "weights")
