"""Japanese through the whole chain as users type it: no spaces, full-width marks, half-width kana, mixed scripts."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import fugashi
import ipadic
import numpy as np
import orjson
import pytest
from integration.conftest import Home, Result
from plain_bleu import PlainBleu, PlainReference
from sentencepiece import SentencePieceProcessor

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.files import read_json
from refaug.core.home import Settings
from refaug.core.records import Reference
from refaug.core.text.normalisation import normalise
from refaug.core.vectors.word_vectors import open_word_vectors
from refaug.logs.store import StoredLog
from refaug.metrics.signature import Signature
from refaug.rater.nn.checkpoint import read_manifest
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings
from refaug.scoring.home.networks import open_rater

THINGS = (
    "コーヒー豆",
    "ﾃﾚﾋﾞのﾘﾓｺﾝ",
    "ＣＤ",
    "Wi-Fiルーター",
    "お茶🍵",
    "消しゴム",
    "新聞",
    "靴下",
    "USBケーブル",
    "味噌",
)
WHEN = ("今日", "明日の朝", "週末", "来月", "お昼", "夜遅く")
ASKS = (
    "{when}、{thing}はどこで買えますか？",
    "{thing}を{when}に売っている店を教えてください。",
    "すみません、{when}なら{thing}は手に入りますか？",
    "{when}までに{thing}が必要なんですけど、どうしましょう…",
)
PLACES = (
    "駅前の市場",
    "図書館の隣",
    "ﾃﾞﾊﾟｰﾄ",
    "港の古い店",
    "角のｺﾝﾋﾞﾆ",
    "橋のたもと",
    "郵便局の向かい",
    "ショッピングモール",
)
ANSWERS = (
    "{}で買えますよ！",
    "{}の近くだと思います。",
    "{}にはありませんでした（笑）",
    "おばが{}でいつも買っています😊",
)
ASKED = [ask.format(when=when, thing=thing) for ask, thing, when in product(ASKS, THINGS, WHEN)]
SAID = [answer.format(place) for answer, place in product(ANSWERS, PLACES)]
ANSWERED = {asked: random.Random(asked).sample(SAID, 3) for asked in ASKED}
SHORT = ("こんにちは", "元気？", "またね！")  # under ten characters, and so not what a rater is trained on
K = 4
ONE = ("--threads", "1")
WITH_BOTH = ("--index", "chat", "--rater", "chat", "-k", str(K), *ONE)
NO_DRAWS = ("--draws", "0", "--json")

_MECAB = fugashi.GenericTagger(f"{ipadic.MECAB_ARGS} -Owakati")


def words(text: str) -> list[str]:
    """MeCab's, asked without any code of ours."""
    return list(_MECAB.parse(text).split())


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def dialogues() -> list[dict[str, Any]]:
    """In rounds: an utterance that follows itself would be taken for one that got two replies in one dialogue."""
    turns = [(asked, answers[at]) for at in range(3) for asked, answers in ANSWERED.items()]
    turns += [(short, said) for said in SAID[:4] for short in SHORT]
    return [{"id": str(number), "turns": both} for number, both in enumerate(turns)]


def lines() -> list[dict[str, Any]]:
    """Replies of two systems: what the log has to the utterance, and something of its answers; rated by two."""
    rows = []
    for number in range(12):
        rng, asked = random.Random(number), ASKED[number * 19]
        own = ANSWERED[asked]
        gold = rng.choice([one for one in SAID if one not in own])
        replies = {"log": own[0], "any": rng.choice([one for one in SAID if one not in (*own, gold)])}
        ratings = {"log": [rng.randint(3, 5), 4], "any": [rng.randint(1, 4), 2]}
        rows.append({"id": f"i{number}", "utterance": asked, "references": [gold], "replies": replies})
        rows[-1]["ratings"] = ratings
    return rows


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log, word vectors, an index, a rater and a ruber, all called chat."""
    folder = tmp_path_factory.mktemp("japanese")
    trained = ("chat", "--preset", "small", "--epochs", "1", "--max-tokens", "32", *ONE)
    for command in (
        ("log", "ingest", written(folder / "chat.jsonl", dialogues()), "--log", "chat", "--language", "ja"),
        ("train", "vectors", "chat", "--dimensions", "16", "--epochs", "4", "--min-count", "1", *ONE),
        ("index", "build", "chat", *ONE),
        ("train", "rater", *trained),
        ("train", "ruber", *trained),
    ):
        assert main(["--home", str(folder / "home"), "--quiet", *map(str, command)]) == 0
    return folder / "home"


@pytest.fixture
def ready(home: Home, built: Path) -> Home:
    shutil.copytree(built, home.path)
    return home


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return written(tmp_path / "items.jsonl", lines())


def settings(home: Home) -> Settings:
    return Settings(home=home.path)


def folder_of(home: Home, kind: str) -> Path:
    _, version = artefact_stores(settings(home))[kind].resolve("chat")
    return artefact_stores(settings(home))[kind].folder("chat", version)


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.code == 0, result.err
    return [orjson.loads(line) for line in result.out.splitlines()]


def augmented(home: Home, items: Path, *more: str) -> list[dict[str, Any]]:
    """What refs writes, with every reference an object."""
    return rows_of(home("sets", "references", items, *WITH_BOTH, *more))


def scores_of(home: Home, *arguments: Any) -> list[dict[str, Any]]:
    result = home("score", *arguments, "--language", "ja", *NO_DRAWS)
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = result.json["scores"]
    return found


def weight_of(reference: dict[str, Any]) -> float:
    return float(reference.get("weight", 1.0))  # a gold has none, and is worth 1


# ── log, vectors, index ───────────────────────────────────────────────────────────────────────────────────────────────


def test_texts_are_stored_as_they_were_written_and_as_japanese(ready: Home) -> None:
    log = StoredLog.open(ready.logs, "chat")
    assert [ingest.language for ingest in log.manifest.ingests] == ["ja"]
    pairs = Counter((pair.utterance, pair.response) for pair in log.pairs())
    assert pairs == Counter(tuple(row["turns"]) for row in dialogues())


def test_vectors_and_index_know_the_words_that_mecab_finds(ready: Home) -> None:
    turns = [turn for row in dialogues() for turn in row["turns"]]
    vectors = open_word_vectors(folder_of(ready, "vectors"))
    counted = Counter(word for turn in turns for word in words(turn))
    assert dict(zip(vectors.words, np.asarray(vectors.counts).tolist(), strict=True)) == counted
    assert {"買え", "コーヒー", "豆", "ﾃﾚﾋﾞ", "😊"} <= set(vectors.words)
    details = read_json(folder_of(ready, "vectors") / "manifest.json")["details"]
    assert details["tokenizer"] == "mecab"
    assert details["coverage"]["known_tokens"] == details["coverage"]["tokens"] == counted.total()
    assert read_json(folder_of(ready, "index") / "manifest.json")["tokenizer"] == "mecab"


def test_the_equal_utterance_is_found_first_with_all_its_answers(ready: Home) -> None:
    found = rows_of(ready("index", "search", "chat", *ASKED, "-k", str(K), *ONE, "--json"))
    for asked, row in zip(ASKED, found, strict=True):
        *own, other = row["references"]
        assert {one["utterance"] for one in own} == {asked}
        assert sorted(one["text"] for one in own) == sorted(ANSWERED[asked])
        assert [one["similarity"] for one in own] == pytest.approx([1.0] * 3, abs=1e-6)
        assert other["utterance"] != asked
        assert other["similarity"] < 1


# ── rater, references ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rater_learns_from_utterances_of_ten_characters_and_in_pieces(ready: Home) -> None:
    manifest = read_manifest(folder_of(ready, "rater"))
    assert manifest.languages == ("ja",)
    assert (manifest.details["shared"]["min_chars"], manifest.details["shared"]["min_words"]) == (10, 1)
    report = read_json(folder_of(ready, "rater") / "report.json")
    assert report["mined"]["utterances"] == len(ASKED)  # the short ones have several answers too
    assert report["short"]["utterances"] == len(SHORT)
    positive = sum(one["positive"] for one in report["examples"].values())
    assert positive == 3 * sum(one["utterances"] for one in report["examples"].values())


def test_pieces_of_the_rater_cover_its_log(ready: Home) -> None:
    model = SentencePieceProcessor(model_file=str(folder_of(ready, "rater") / "tokenizer.model"))
    for text in (*ASKED, *SAID):
        assert model.unk_id() not in model.encode(text)
    rater = open_rater(settings(ready), "chat", threads=1)
    assert rater.unfamiliar(rater.coverage(ASKED)) is None
    told = rater.unfamiliar(rater.coverage(["Привет, как у тебя дела сегодня?"]))
    assert told is not None
    assert "trained on texts in ja" in told


def test_references_are_rated_answers_to_the_equal_utterance(ready: Home, items: Path) -> None:
    rater = open_rater(settings(ready), "chat", threads=1)
    for row, line in zip(augmented(ready, items), lines(), strict=True):
        gold, *retrieved = row["references"]
        assert (gold["text"], gold["source"]) == (line["references"][0], "gold")
        assert sorted(one["text"] for one in retrieved[:3]) == sorted(ANSWERED[line["utterance"]])
        assert normalise(gold["text"]) not in {normalise(one["text"]) for one in retrieved}
        asked = RatingRequest(
            utterance=line["utterance"],
            golds=tuple(line["references"]),
            candidates=tuple(Reference(text=one["text"]) for one in retrieved),
        )
        expected = rater.rate([asked], RatingSettings())[0]
        assert [one["weight"] for one in retrieved] == pytest.approx(expected, abs=1e-5)


# ── scores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(row: dict[str, Any], reply: str) -> tuple[float, int]:
    """υBLEU of a reply against weighted references, and its length."""
    bleu = PlainBleu()
    references = [
        PlainReference(tokens=words(one["text"]), weight=weight_of(one), is_gold=one["source"] == "gold")
        for one in row["references"]
    ]
    sums = bleu.sums(words(reply), references)
    return bleu.score(sums, "reply"), sums.length


@pytest.mark.parametrize("weights", ["one", "rated"])
def test_upsilon_bleu_is_that_of_a_plain_computation_on_mecab_words(ready: Home, items: Path, weights: str) -> None:
    more = ("--reference-weights", weights, "--parrot", "rated")
    [found] = scores_of(ready, items, *WITH_BOTH, *more, "-m", "upsilon-bleu")
    assert Signature.parse(found["signature_full"]).settings["tok"] == "mecab"
    for system in ("log", "any"):
        rows = zip(augmented(ready, items, *more), lines(), found["systems"][system]["replies"], strict=True)
        for row, line, score in rows:
            expected, length = plain(row, line["replies"][system])
            assert score["score"] == pytest.approx(expected, abs=1e-6)
            assert score["parts"]["reply_length"] == length == len(words(line["replies"][system])) > 1
            if weights == "one":  # a reply that is one of the references is perfect, and no other is
                is_reference = line["replies"][system] in [one["text"] for one in row["references"]]
                assert (score["score"] == 1) == is_reference
                assert is_reference or system == "any"
