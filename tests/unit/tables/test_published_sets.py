"""Published sets, on made-up files of each layout: what becomes of them, and errors that name file, line and layout."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from refusals import refusing

from refaug.core.errors import BadInput, DamagedSource, NotFound, RefaugError, TooLarge, Usage
from refaug.scoring.items import Item, parse_item
from refaug.tables import published_files
from refaug.tables.published_sets import SETS, file_name, read_set, set_of_ids


def _lines(*objects: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in objects)


USR = [
    {
        "context": "Do you like bread ?\nWarm bread .\n",
        "fact": "bread\n",
        "responses": [
            {"model": "Original Ground Truth", "response": "Me too .\n", "Overall": [5, 4, 5], "Natural": [3, 3, 3]},
            {"model": "Nucleus", "response": "A boat .\n", "Overall": [1, 2, 1], "Natural": [1, 3, 2]},
        ],
    }
]
FED = [
    {
        "context": "User: Good day\nSystem: Hello: you",
        "response": "System: Where to?",
        "system": "Bot",
        "annotations": {"Overall": [4, 3, "N/A"]},
    },
    {"context": "User: Good day\nSystem: Hello", "system": "Bot", "annotations": {"Overall": [4]}},
]
ZHAO = {
    "d1": {
        "context": [["A", "Is it far ?"], ["B", "No ."]],
        "reference": ["A", "Good ."],
        "responses": {
            "ground-truth": {"uttr": "Good .", "scores": {"w1": {"overall": 5}, "w2": {"overall": 4}}},
            "S2S greedy": {"uttr": "Yes .", "scores": {"w1": {"overall": 2}, "w2": {"overall": 1}}},
            "unrated": {"uttr": "Oh ."},
        },
    }
}
GUPTA = (
    "model,context_id,human_average_rating,response,prevgt,all_references,context\n"
    'human,7_1,4.8,"yes , now",x,"now .\tat once .","shall we ?||||when ?"\n'
)
HUMOD = (
    "Dialogue_ID\tDialogue_Context\tReply\tLabel\tUser_ID\tAge\tSex\tUser_Relevance_Score\tUser_Reply\tTime\n"
    "1\tSpeaker 1: Cold?\tSpeaker 2: Very.\tSpeaker 1: A coat.\t0\t9\t30\tf\t5\tTake mine.\t10\n"
    "1\tSpeaker 1: Cold?\tSpeaker 2: Very.\tSpeaker 1: A coat.\t0\t8\t31\tm\t4\tCome in.\t11\n"
    "2\tSpeaker 1: Cold?\tSpeaker 2: Very.\tSpeaker 1: Two cats.\t1\t9\t30\tf\t1\tTake mine.\t10\n"
)
DSTC9 = [
    {"context": "User: Hi\nSystem: Hello\nUser: Who?\nSystem: A bot\n", "human (overall)": 4, "diverse": 1},
    {"context": "User: Hi\nSystem: Hello\nUser: Who?\nSystem: A bot\n", "human (overall)": 2, "diverse": 3},
]
DSTC10 = [
    {
        "dialogue_id": "x-0",
        "model": "m1",
        "context": "One ?\nTwo ?",
        "response": "Three .",
        "reference": ["Four ."],
        "annotations": {"Overall": [1, 3], "Relevance": [2, 2]},
    }
]
CONTURE = [
    {
        "dialog_id": 0,
        "turns": [
            {"user": "User: Hi", "chatbot": "Chatbot: Ho", "overall impression": 0},
            {"user": "User: Eh?", "chatbot": "Chatbot: Oh", "overall impression": 2},
        ],
    }
]
XDIAL = 'english_ctx,english_res,german_ctx,german_res,ratings\n"One?\nTwo.",Three.,"Eins?\nZwei.",Drei.,3.5\n'
RADE = _lines(
    {"context": ["A ?", "B ."], "output": "C .", "reference": "D .", "s_output": 4.0, "s_reference": 5.0},
    {"context": ["A ?", "B ."], "output": "E .", "reference": "D .", "s_output": 2, "s_reference": 5.0},
)
GRADE = {
    "evaluation/eval_data/dailydialog/ranker/human_ctx.txt": "One ?|||Two ?\nThree ?|||Four ?\n",
    "evaluation/eval_data/dailydialog/ranker/human_hyp.txt": "a .\nb .\n",
    "evaluation/eval_data/dailydialog/ranker/human_ref.txt": "c .\nd .\n",
    "evaluation/human_score/dailydialog/ranker/human_score.txt": "2.0\n4.5\n",
}
JUDGEMENT = [
    {
        "ID": number,
        "Dataset": "dailydialog_EVAL",
        "DialogModel": "ranker",
        "Context": context,
        "Response": reply,
        "HumanScores": scores,
    }
    for number, (context, reply, scores) in enumerate(
        [("One ?|||Two ?", "a .", "[1, 3]"), ("Three ?|||Four ?", "b .", "[4, 5]")]
    )
]
PLUS = _lines(
    {"id": 0, "context": ["A ?", "B ?"], "positive_responses": ["C .", "D ."], "random_negative_responses": []}
)
EMPATHETIC = (
    "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n"
    'hit:1,1,sad,p,0,I lost it_comma_ "my" hat.,5|5,\nhit:1,2,sad,p,1,Oh no.,5|5,\nhit:2,1,glad,p,0,One.,5|5,\n'
    "hit:2,2,glad,p,1,Two.,5|5,\n"
)
PERSONACHAT = """1 your persona: i sail.
2 hello\thi there\t\tx|y
3 how ?\twell\t\tx|y
1 partner's persona: i bake.
2 a\tb\t\tc|d
"""
TOPICAL = {"t_1": {"content": [{"message": "Hi .", "agent": "agent_1"}, {"message": "Ho .", "agent": "agent_2"}]}}
DSTC11 = "UID,SID,SEG,TRANSLATION\nX-000001-0001,A,One,Uno\nX-000001-0002,B,Two,Dos\nX-000002-0001,A,Three,Tres\n"


def _item(turns: list[str], references: list[str], replies: dict[str, tuple[str, list[float]]]) -> dict[str, Any]:
    return {
        "turns": turns,
        "references": references,
        "replies": {system: reply for system, (reply, _) in replies.items()},
        "ratings": {system: ratings for system, (_, ratings) in replies.items()},
    }


# name → its files, and what they become without ids and scales
READ: Mapping[str, tuple[Mapping[str, str], list[Any]]] = {
    "usr:topicalchat": (
        {"tc_usr_data.json": json.dumps(USR), "pc_usr_data.json": "[]"},
        [
            _item(
                ["Do you like bread ?", "Warm bread ."],
                ["Me too ."],
                {"Original Ground Truth": ("Me too .", [5, 4, 5]), "Nucleus": ("A boat .", [1, 2, 1])},
            )
        ],
    ),
    "fed": (
        {"fed_data.json": json.dumps(FED)},
        [_item(["Good day", "Hello: you"], [], {"Bot": ("Where to?", [4, 3])})],
    ),
    "zhao:dailydialog": (
        {"dailydialog.json": json.dumps(ZHAO)},
        [
            _item(
                ["Is it far ?", "No ."],
                ["Good ."],
                {"ground-truth": ("Good .", [5, 4]), "S2S greedy": ("Yes .", [2, 1])},
            )
        ],
    ),
    "gupta": (
        {"mturk_rating_processed_output.csv": GUPTA},
        [_item(["shall we ?", "when ?"], ["now .", "at once ."], {"human": ("yes , now", [4.8])})],
    ),
    "humod": (
        {"HUMOD_Dataset.TXT": HUMOD},
        [
            _item(
                ["Cold?", "Very."],
                ["Take mine.", "Come in."],
                {"original": ("A coat.", [5, 4]), "random": ("Two cats.", [1])},
            )
        ],
    ),
    "pang": (
        {"context_data_release.csv": '0,"Hey , you",Yes ?,3,2,5,1,2,2,2,2,2,2\n'},
        [_item(["Hey , you"], [], {"reply": ("Yes ?", [3, 2, 5, 1, 2, 2, 2, 2, 2, 2])})],
    ),
    "dstc9": (
        {"data/bot5.json": json.dumps(DSTC9)},
        [_item(["Hi", "Hello", "Who?"], [], {"bot5": ("A bot", [4, 2])})],
    ),
    "dstc10:x": (
        {"x_eval.json": json.dumps(DSTC10), "y_eval.json": "[]"},
        [_item(["One ?", "Two ?"], ["Four ."], {"m1": ("Three .", [1, 3])})],
    ),
    "conture": (
        {"data/data.json": json.dumps(CONTURE)},
        [_item(["Hi"], [], {"reply": ("Ho", [0])}), _item(["Hi", "Ho", "Eh?"], [], {"reply": ("Oh", [2])})],
    ),
    "xdial-eval:fed-turn:german": (
        {"data/turn/fed-turn.csv": XDIAL},
        [_item(["Eins?", "Zwei."], [], {"reply": ("Drei.", [3.5])})],
    ),
    "rade:emotion": (
        {"dataset/emotion/data.jsonl": RADE, "dataset/persona/data.jsonl": ""},
        [_item(["A ?", "B ."], ["D ."], {"reply": ("C .", [4.0]), "reply #2": ("E .", [2.0])})],
    ),
    "grade:dailydialog": (
        {**GRADE, "evaluation/human_score/human_judgement.json": json.dumps(JUDGEMENT)},
        [
            _item(["One ?", "Two ?"], ["c ."], {"ranker": ("a .", [1, 3])}),
            _item(["Three ?", "Four ?"], ["d ."], {"ranker": ("b .", [4, 5])}),
        ],
    ),
    "dailydialog++:dev": ({"dataset/dev.json": PLUS}, [["B ?", "C ."], ["B ?", "D ."]]),
    "dailydialog:train": (
        {"train/dialogues_train.txt": "A ? __eou__ B . __eou__\nalone __eou__\nC . __eou__ D . __eou__ E . __eou__\n"},
        [["A ?", "B ."], ["C .", "D .", "E ."]],
    ),
    "empatheticdialogues:test": (
        {"empatheticdialogues/test.csv": EMPATHETIC},
        [['I lost it, "my" hat.', "Oh no."], ["One.", "Two."]],
    ),
    "personachat:valid": (
        {"valid_none_original.txt": PERSONACHAT},
        [["hello", "hi there", "how ?", "well"], ["a", "b"]],
    ),
    "topical-chat:test_freq": ({"conversations/test_freq.json": json.dumps(TOPICAL)}, [["Hi .", "Ho ."]]),
    "dstc11:X:translation": ({"task1/dev/en_es/X_multilingual_en_es.csv": DSTC11}, [["Uno", "Dos"]]),
}


def folder_of(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def zip_of(folder: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(folder / "set.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(f"published-1.0/{name}", text)
    return folder / "set.zip"


def tar_of(folder: Path, files: Mapping[str, str]) -> Path:
    with tarfile.open(folder / "set.tar.gz", "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))
    return folder / "set.tar.gz"


@pytest.mark.parametrize("pack", [folder_of, zip_of, tar_of])
@pytest.mark.parametrize("name", READ)
def test_each_layout_becomes_items_or_dialogues(
    tmp_path: Path, name: str, pack: Callable[[Path, Mapping[str, str]], Path]
) -> None:
    files, wanted = READ[name]
    documents = [document for _, document in read_set(name, pack(tmp_path, files))]
    scale = SETS[name.partition(":")[0]].scale
    for document in documents:
        assert document.pop("id").startswith(f"{file_name(name)}/")
        assert document.pop("scale", None) == (None if scale is None or isinstance(wanted[0], list) else list(scale))
    assert [document["turns"] if isinstance(wanted[0], list) else document for document in documents] == wanted


def test_each_reply_of_a_system_keeps_its_place_whatever_the_system_is_called(tmp_path: Path) -> None:
    rows = [
        {**DSTC10[0], "model": model, "response": str(number)}
        for number, model in enumerate(["bot #7", "bot #7", "m", "m #2", "m"])
    ]
    files = {"x_eval.json": json.dumps(rows), "y_eval.json": "[]"}
    [(_, document)] = read_set("dstc10:x", folder_of(tmp_path, files))
    assert document["replies"] == {"bot #7": "0", "bot #7 #2": "1", "m": "2", "m #2": "3", "m #3": "4"}


def test_every_set_with_a_reader_is_read_here() -> None:
    readable = {name for name, published in SETS.items() if published.read is not None}
    assert readable == {name.partition(":")[0] for name in READ}
    assert [name for name, published in SETS.items() if published.read is None] == ["dstc12"]


def test_items_of_all_sets_are_items(tmp_path: Path) -> None:
    for number, (name, (files, wanted)) in enumerate(READ.items()):
        for where, document in read_set(name, folder_of(tmp_path / str(number), files)):
            if isinstance(wanted[0], dict):
                assert isinstance(parse_item(document, where=where, line=1, fallback_id="x"), Item)
            assert set_of_ids(iter([document["id"]])) is SETS[name.partition(":")[0]]
    assert set_of_ids(iter(["usrs/1", "usr", "chat-7"])) is None


def test_a_quality_can_be_chosen_where_there_are_several(tmp_path: Path) -> None:
    files = folder_of(tmp_path, READ["usr:topicalchat"][0])
    [(_, item)] = read_set("usr:topicalchat", files, "Natural")
    assert item["ratings"]["Nucleus"] == [1, 3, 2]
    with refusing(BadInput, "tc_usr_data.json, entry 1, responses, entry 1", "Tone", "model, response"):
        list(read_set("usr:topicalchat", files, "Tone"))
    with refusing(Usage, "gupta"):
        list(read_set("gupta", files, "Overall"))


def test_a_mean_stands_where_no_single_ratings_were_published(tmp_path: Path) -> None:
    items = [item for _, item in read_set("grade:dailydialog", folder_of(tmp_path, GRADE))]
    assert [item["ratings"] for item in items] == [{"ranker": [2.0]}, {"ranker": [4.5]}]


# name, the file that differs, its text, and what the error names
WRONG: list[tuple[str, ...]] = [
    ("fed", "fed_data.json", '{"a": 1}', "fed_data.json"),
    ("fed", "fed_data.json", "[\n1,\n", "fed_data.json, line 3"),
    ("fed", "fed_data.json", '[{"response": "x", "context": 7}]', "entry 1, context", "'7'"),
    ("gupta", "mturk_rating_processed_output.csv", "a,b\n1,2\n", "output.csv, line 1", "model", "a, b"),
    ("gupta", "mturk_rating_processed_output.csv", GUPTA + "x\n", "output.csv, line 3", "1", "7"),
    (
        "gupta",
        "mturk_rating_processed_output.csv",
        GUPTA.replace("4.8", "good"),
        "line 2, human_average_rating",
        "good",
    ),
    ("humod", "HUMOD_Dataset.TXT", HUMOD + "3\tSpeaker 1: Eh?\n", "HUMOD_Dataset.TXT, line 5", "2", "10"),
    ("humod", "HUMOD_Dataset.TXT", "a\tb\n", "line 1", "reply", "a, b"),
    ("pang", "context_data_release.csv", "0,a,b,1\n", "line 1", "4", "13"),
    ("rade:emotion", "dataset/emotion/data.jsonl", RADE + "{\n", "emotion/data.jsonl, line 3"),
    ("dailydialog:train", "dialogues_train.txt", "A\nB __eou__\n", "dialogues_train.txt, line 1", "__eou__"),
    ("personachat:valid", "valid_none_original.txt", "hello\n", "valid_none_original.txt, line 1"),
    ("empatheticdialogues:test", "test.csv", "a,b\n", "test.csv, line 1", "a,b", "conv_id"),
    ("empatheticdialogues:test", "test.csv", EMPATHETIC + "x,y\n", "test.csv, line 6", "2", "6"),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_another_layout_is_refused_with_its_place(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    name, file, text, *named = wrong
    with refusing(BadInput, *named):
        list(read_set(name, folder_of(tmp_path, {file: text})))


def test_uneven_files_and_missing_ones_are_refused(tmp_path: Path) -> None:
    with refusing(NotFound, "tc_usr_data.json", "usr") as error:
        list(read_set("usr:topicalchat", folder_of(tmp_path, {"other.json": "[]"})))
    assert "responses" in getattr(error.value, "remedy", "")
    short = {**GRADE, "evaluation/eval_data/dailydialog/ranker/human_hyp.txt": "a .\n"}
    with refusing(BadInput, "ranker", "2, 1, 2, 2"):
        list(read_set("grade:dailydialog", folder_of(tmp_path / "grade", short)))
    (tmp_path / "latin.csv").write_bytes(GUPTA.encode() + b"\xe9\n")
    with refusing(BadInput, "latin.csv, line 3"):
        list(read_set("gupta", tmp_path / "latin.csv"))


@pytest.mark.parametrize("name", ["nosuch", "usr", "usr:reddit", "fed:part", "dstc10", "dstc12"])
def test_names_and_parts_that_are_not_there_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Usage):
        list(read_set(name, tmp_path))


def test_hostile_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tar(*members: tarfile.TarInfo) -> Path:
        path = tmp_path / f"{members[0].name.replace('/', '_')}.tar"
        with tarfile.open(path, "w") as packed:
            for member in members:
                packed.addfile(member, io.BytesIO(b"[]"[: member.size]))
        return path

    outside, link = tarfile.TarInfo("../fed_data.json"), tarfile.TarInfo("fed_data.json")
    outside.size, link.type, link.linkname = 2, tarfile.SYMTYPE, "/etc/hostname"
    refused: list[tuple[Path, type[RefaugError]]] = [(tar(outside), DamagedSource), (tar(link), NotFound)]
    damaged = zip_of(tmp_path, {"fed_data.json": "x" * 1000})
    damaged.write_bytes(damaged.read_bytes().replace(b"published-1.0/fed", b"published-1.0/fad", 1))
    refused.append((damaged, DamagedSource))
    for path, kind in refused:
        with pytest.raises(kind):
            list(read_set("fed", path))
    monkeypatch.setattr(published_files, "_MOST_BYTES", 1_000)
    bomb = zip_of(tmp_path, {"fed_data.json": "[" + " " * 100_000 + "]"})
    with pytest.raises(TooLarge):
        list(read_set("fed", bomb))
    monkeypatch.setattr(published_files, "_MOST_IN_ALL", 10_000)
    for pack in (zip_of, tar_of):
        with pytest.raises(TooLarge):
            list(read_set("fed", pack(tmp_path, {"fed_data.json": "[" + " " * 100_000 + "]"})))
