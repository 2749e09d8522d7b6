"""Rated replies out of their files: rows, means, what disqualifies them, and what is wrong with a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import fugashi
import ipadic
import numpy as np
import pytest
from refusals import refusing

from refaug.core.errors import BadInput, NotFound
from refaug.extras.reproduction.material.rated_sets import ProofSet, read_rated, read_sets, token_jaccard, word_sets
from refaug.scoring.items import item_of


def row(item: str, system: str, response: str, **more: Any) -> dict[str, Any]:
    """A line as the ratings were released."""
    values = {
        "context_id": item,
        "context": ["hello", "how are you ?"],
        "references": ["i am fine", "not bad"],
        "system": system,
        "response": response,
        "scores": [4, 5],
    }
    return {**values, **more}


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / "human" / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(one) + "\n" for one in rows).encode()))
    return path


def test_released_rows_become_items_and_rows_with_mean_ratings(tmp_path: Path) -> None:
    write(
        tmp_path,
        "some",
        [
            row("a", "one", "very well thanks", scores=[1, 4]),
            row("a", "two", "I am fine .", scores=[5, 5]),
            row("b", "one", "who knows", scores=[2, 3]),
        ],
    )

    [found] = read_sets(tmp_path, ["some"])

    assert [item.id for item in found.items] == ["a", "b"]
    assert found.items[0].turns == ("hello", "how are you ?")
    assert found.item.tolist() == [0, 0, 1]
    assert found.systems == ("one", "two", "one")
    assert found.replies == ("very well thanks", "I am fine .", "who knows")
    assert found.ratings.tolist() == [2.5, 5.0, 2.5]
    assert found.by_annotator.tolist() == [[1, 4], [5, 5], [2, 3]]
    assert found.lengths.tolist() == [3, 4, 2]
    assert found.fair.tolist() == [True, False, True]  # the second is a gold, normalised
    assert found.without_systems(["one"]).tolist() == [False, False, False]
    assert [one.text for one in found.with_first_gold().items[0].references] == ["i am fine"]
    assert found.notes == ()


def test_one_number_a_reply_is_a_named_gap(tmp_path: Path) -> None:
    rows = [row("a", "one", "x y", score=3.5), row("b", "one", "z", score=2)]
    for one in rows:
        del one["scores"]
    write(tmp_path, "means", rows)

    [found] = read_sets(tmp_path, ["means"])

    assert found.ratings.tolist() == [3.5, 2.0]
    assert found.notes == (
        "one number a reply: no human row, no spread over annotators",
        "one system only: nothing is compared between systems",
    )


def test_a_set_without_utterances_says_so(tmp_path: Path) -> None:
    write(tmp_path, "silent", [row("a", "one", "x", context=[]), row("a", "two", "y", context=[])])

    [found] = read_sets(tmp_path, ["silent"])

    assert found.notes == ("1 items have no utterance, so nothing is retrieved for them",)


def test_items_of_ours_are_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(
        '{"id": "q", "utterance": "hi", "references": ["hey"], "replies": {"s": "yo"}, "ratings": {"s": [3]}}\n'
    )

    [item] = read_rated(path)

    assert item == item_of(
        {"id": "q", "utterance": "hi", "references": ["hey"], "replies": {"s": "yo"}, "ratings": {"s": [3]}},
        fallback_id="q",
    )


WHOLE = b'{"context_id": 1, "references": [], "system": "s", "response": "r"}\n'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"not json\n", "bad.jsonl.gz"),
        (WHOLE + b"[1]\n", "context_id"),
        (
            b'{"context_id": 1, "references": [], "system": "s", "response": "r"}\n{"context_id": 2}\n',
            "line 2 has no 'ref",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, lines: bytes, message: str) -> None:
    path = tmp_path / "human" / "bad.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(lines))

    with refusing(BadInput, message):
        read_sets(tmp_path, ["bad"])


def test_second_reply_of_a_system_is_refused_and_the_first_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row("a", "one", text)) + "\n" for text in ("b", "c"))

    with refusing(BadInput, "x.jsonl.gz", "one"):
        read_rated(path)


def test_unusable_item_is_named_without_its_words_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    rows = [row("a", "one", "yes", scores=["secret"]), *(row(item, "one", "no") for item in "bcd")]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)

    notes = ProofSet.of("x", read_rated(path)).notes

    assert "1 items cannot be used: the first in line 1 of x.jsonl.gz, ratings.one[0]" in notes
    assert not any("secret" in note or str(tmp_path) in note for note in notes)


def test_a_set_that_is_not_there_or_has_no_references_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "bare", [row("a", "one", "x", references=[]), row("a", "two", "y", references=[])])

    with refusing(NotFound, "human/none.jsonl.gz"):
        read_sets(tmp_path, ["none"])
    with refusing(BadInput):
        read_sets(tmp_path, ["bare"])


def test_data_names_ratings_and_replies(tmp_path: Path) -> None:
    rows = [row("a", "one", "x"), row("a", "two", "y")]
    one, again, other = (
        ProofSet.of("s", read_rated(write(tmp_path, name, some)))
        for name, some in (("1", rows), ("2", rows), ("3", [rows[0], row("a", "two", "y", scores=[1, 5])]))
    )

    assert one.data == again.data != other.data


def test_likeness_is_the_share_of_common_words() -> None:
    one, other, nothing = word_sets(["A b, c d.", "b c d e", " "])

    assert one == frozenset("abcd")
    assert token_jaccard(one, other) == pytest.approx(3 / 5)
    assert token_jaccard(nothing, nothing) == 0
    assert token_jaccard(one, one) == 1
    assert np.isclose(token_jaccard(one, nothing), 0)


# ── Japanese ──────────────────────────────────────────────────────────────────────────────────────────────────────

JAPANESE = ("駅前の市場で買えますよ！", "ﾃﾞﾊﾟｰﾄの近くだと思います。", "了解")


def mecab_words(text: str) -> list[str]:
    return list(fugashi.GenericTagger(f"{ipadic.MECAB_ARGS} -Owakati").parse(text).split())


def test_japanese_replies_are_as_long_as_mecab_finds_words_in_them(tmp_path: Path) -> None:
    rows = [row("a", f"s{n}", text, references=["ありません。"]) for n, text in enumerate(JAPANESE)]

    [found] = read_sets(write(tmp_path, "talk", rows).parents[1], ["talk"])

    assert found.tokenizer == "mecab"
    assert found.lengths.tolist() == [len(mecab_words(text)) for text in JAPANESE]
    assert max(found.lengths) > 5
    assert found.restricted_to(found.fair).tokenizer == "mecab"


def test_likeness_of_japanese_counts_words_whatever_their_width() -> None:
    one, other, wide = word_sets(["ﾃﾚﾋﾞは駅前の市場で買えますよ！", "テレビは、駅前の市場で買えます", "ＴＶ"])

    assert one == frozenset(mecab_words("テレビは駅前の市場で買えますよ"))
    assert token_jaccard(one, other) == len(one & other) / len(one) == pytest.approx((len(one) - 1) / len(one))
    assert wide == {"tv"}


def test_words_are_those_of_the_tokenizer_that_is_named() -> None:
    [alone] = word_sets(["東京都知事選挙"])  # without kana it might be Chinese
    [named] = word_sets(["東京都知事選挙"], "mecab")

    assert alone == {"東京都知事選挙"}
    assert named == set(mecab_words("東京都知事選挙")) > {"選挙"}
