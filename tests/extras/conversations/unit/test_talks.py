"""Conversations of tables: rows of turns are joined into whole ones, or what is wrong is said."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from refusals import refusing

from refaug.core.errors import BadInput
from refaug.extras.conversations.metrics.exchanges import Side
from refaug.extras.conversations.options import ConversationColumns, HybridSettings
from refaug.extras.conversations.reading import BadConversation, Conversation
from refaug.extras.conversations.table import RatedConversations
from refaug.extras.conversations.talks import conversations_in

HEADER = "conversation_id,bot,worker,role,text,grade\n"


def read(path: Path, text: str) -> list[Conversation | BadConversation]:
    path.write_text(text)
    return list(conversations_in(path, path.name, ConversationColumns.parse(["rating:q=grade"])))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("1,A,w,user,Hi,\n1,A,w,bot,Yo,\n1,B,w,user,Hi,\n", "bot than in line 2: 'B', there 'A'"),
        ("1,A,w1,user,Hi,\n1,A,w2,user,Hi,\n", "participant than in line 2: 'w2', there 'w1'"),
        ("1,A,w1,bot,Yo,\n1,A,w2,bot,Yo,\n", "participant of replies than in line 2: 'w2', there 'w1'"),
        ("1,A,w,user,Hi,\n1,A,w,bot,Yo,4\n1,A,w,user,Hi,5\n", "rating of q than in line 3: 5.0, there 4.0"),
    ],
)
def test_turns_of_several_conversations_under_one_id_are_none(tmp_path: Path, rows: str, what: str) -> None:
    [bad, good] = read(tmp_path / "turns.csv", f"{HEADER}{rows}2,A,w,user,Hi,\n2,A,w,bot,Yo,\n")
    assert isinstance(bad, BadConversation)
    assert bad.message.startswith(f"conversation 1: another {what}; ")
    assert isinstance(good, Conversation)


def test_a_conversation_has_what_any_of_its_rows_say(tmp_path: Path) -> None:
    [talk] = read(tmp_path / "turns.csv", f"{HEADER}1,,w,user,Hi,\n1,A,,bot,Yo,\n1,A,bot-7,bot,Bye,4\n")
    assert isinstance(talk, Conversation)
    assert (talk.bot, talk.participant, talk.ratings, len(talk.turns)) == ("A", "w", {"q": 4.0}, 3)


@pytest.mark.parametrize("lost", ["1,A,w,bot,Oh, well,4", ",A,w,bot,Oh,4"])
def test_no_conversation_counts_where_a_turn_is_lost(tmp_path: Path, lost: str) -> None:
    with refusing(BadInput, "turns.csv: a turn is lost in line 3", "correct the row"):
        read(tmp_path / "turns.csv", f"{HEADER}1,A,w,user,Hi,\n{lost}\n1,A,w,user,Hm,\n1,A,w,bot,Yo,\n")


def test_turns_stand_in_their_order_and_unused_columns_are_named(tmp_path: Path) -> None:
    path, told = tmp_path / "turns.csv", list[str]()
    rows = ["c1,3,bot,Bye,4", "c1,2,user,Hm,4", "c1,1,bot,Yo,4", "c1,0,user,Hi,4", "c2,1,bot,B,5", "c2,0,user,A,5"]
    rows += ["c3,1,bot,D,5", "c3,1,user,C,5", "c3,0,bot,B,5", "c3,0,user,A,5"]
    path.write_text("\n".join(["conversation,turn,role,text,grade", *rows]))
    talks = conversations_in(path, path.name, ConversationColumns.parse([]), bot="b", warn=told.append)
    turns = {talk.id: [text for _, text in talk.turns] for talk in talks if isinstance(talk, Conversation)}
    assert turns == {"c1": ["Hi", "Yo", "Hm", "Bye"], "c2": ["A", "B"], "c3": ["A", "B", "C", "D"]}
    assert told == ["column 'grade' is not used; if it holds ratings: --map rating:QUESTION=grade"]


def test_nulls_are_no_fields_and_a_scale_without_an_answer_plays_no_part(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    turns = [{"role": "user", "text": "Hi"}, {"role": "bot", "text": "Yo"}]
    rated = {"bot": "b", "model": None, "id": None, "participant": None, "turns": turns, "messages": None}
    lines = [{**rated, "ratings": {"q": number % 7 + 1}, "scale": [1, 7]} for number in range(50)]
    path.write_bytes(b"\n".join(map(orjson.dumps, [*lines, {**rated, "ratings": None}])))
    talks = list(conversations_in(path, path.name, ConversationColumns.parse([]), bot="x"))
    assert [(talk.id, talk.bot) for talk in talks if isinstance(talk, Conversation)][50:] == [("line-51", "b")]
    counted = RatedConversations.of([talk for talk in talks if isinstance(talk, Conversation)], HybridSettings())
    assert (len(counted.conversations), counted.unrated) == (50, 1)


def test_conversations_without_any_reply_to_the_person_are_refused() -> None:
    turns = ((Side.BOT, "Hi"), (Side.BOT, "Yo"), (Side.PERSON, "Hm"))
    talks = [Conversation(id=str(number), bot="b", turns=turns, ratings={"q": 1.0}) for number in range(50)]
    with refusing(BadInput, "the order"):
        RatedConversations.of(talks, HybridSettings())
