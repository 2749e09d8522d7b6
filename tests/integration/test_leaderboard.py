"""Published sets are added by name, and a board of metrics over them counts every corpus the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

WORDS = ["the", "cat", "dog", "sat", "ran", "home", "fast", "today", "never", "maybe"]
DRAWS = ("--draws", "100")


def rated_set(path: Path, seed: int, share: float) -> Path:
    """Write items whose ratings follow the share of words kept from the gold more, or less."""
    drawn = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(15):
            gold = drawn.choices(WORDS, k=6)
            replies, ratings = {}, {}
            for system in ("a", "b"):
                kept = drawn.randint(0, 6)
                replies[system] = " ".join([*gold[:kept], *drawn.choices(["oh", "so", "well"], k=drawn.randint(1, 5))])
                ratings[system] = [kept * share + drawn.random() for _ in range(2)]
            item = {"id": f"{seed}-{number}", "references": [" ".join(gold)], "replies": replies, "ratings": ratings}
            file.write(json.dumps(item) + "\n")
    return path


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    """Two sets on one corpus, and two others."""
    names = {"gupta": 0.5, "my-dailydialog": 0.0, "usr-topicalchat": 0.2, "own": 0.1}
    return [rated_set(tmp_path / f"{name}.jsonl", seed, share) for seed, (name, share) in enumerate(names.items())]


def lengths_and_ratings(path: Path) -> tuple[list[int], list[float]]:
    lengths, ratings = list[int](), list[float]()
    for line in path.read_text("utf-8").splitlines():
        item = json.loads(line)
        for system, reply in item["replies"].items():
            lengths.append(len(reply.split()))
            ratings.append(sum(item["ratings"][system]) / 2)
    return lengths, ratings


def test_every_corpus_counts_the_same_and_is_left_out_once(home: Any, sets: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    board = home(
        *("agreement", "leaderboard", *sets, "-m", "bleu", "-m", "ter", *DRAWS, "--html", page, "--json"),
        *("--corpus", "own=Letters"),
    ).json
    assert board["corpora"] == {
        "gupta": "DailyDialog",
        "my-dailydialog": "DailyDialog",
        "usr-topicalchat": "Topical-Chat",
        "own": "Letters",
    }
    rows = {row["name"]: row for row in board["rows"]}
    expected = [stats.spearmanr(*lengths_and_ratings(path)).statistic for path in sets]
    length = rows["length"]
    assert [length["sets"][path.stem]["spearman"]["value"] for path in sets] == pytest.approx(expected)
    for row in rows.values():
        values = [row["sets"][path.stem]["spearman"]["value"] for path in sets]
        corpora = [(values[0] + values[1]) / 2, values[2], values[3]]
        assert row["spearman"]["value"] == pytest.approx(sum(corpora) / 3)
        low, high = row["spearman"]["interval"]
        assert low < row["spearman"]["value"] < high
        assert row["without"] == {
            "DailyDialog": pytest.approx(sum(corpora[1:]) / 2),
            "Topical-Chat": pytest.approx((corpora[0] + corpora[2]) / 2),
            "Letters": pytest.approx(sum(corpora[:2]) / 2),
        }
    metrics = [row for row in board["rows"] if row["kind"] == "metric"]
    assert [row["rank"] for row in board["rows"]] == [1, 2, None]
    assert metrics[0]["spearman"]["value"] >= metrics[1]["spearman"]["value"]
    partial = [metrics[0]["sets"][path.stem]["partial_spearman"]["value"] for path in sets]
    assert metrics[0]["partial_spearman"]["value"] == pytest.approx(
        ((partial[0] + partial[1]) / 2 + partial[2] + partial[3]) / 3
    )
    text = page.read_text("utf-8")
    assert board["sets"]["gupta"]["data"] in text
    assert "maybe" not in text


def test_one_set_and_wrong_corpora(home: Any, sets: list[Path]) -> None:
    printed = home("agreement", "leaderboard", sets[0], "-m", "bleu", *DRAWS).out
    assert "without a corpus" in printed
    assert "by set" not in printed
    for stated in ("nosuch=X", "gupta", "gupta="):
        refused = home("agreement", "leaderboard", sets[0], "-m", "bleu", "--corpus", stated)
        assert "--corpus" in refused.err


def test_a_published_set_is_added_and_measured_by_name(home: Any, tmp_path: Path) -> None:
    responses = [
        {"model": "Original Ground Truth", "response": "Warm bread .", "Overall": [5, 4]},
        {"model": "one", "response": "Warm bread and tea .", "Overall": [4, 4]},
        {"model": "two", "response": "A boat .", "Overall": [1, 2]},
    ]
    published = [{"context": f"Hello {number} .", "fact": "", "responses": responses} for number in range(6)]
    file = tmp_path / "pc_usr_data.json"
    file.write_text(json.dumps(published), "utf-8")
    added = home("sets", "add", "usr:personachat", "--from", file, "--json").json
    assert (added["items"], added["rated replies"], added["may be passed on"]) == (6, 18, False)
    listed = {each["name"]: each["added"] for each in home("sets", "standard", "--json").json}
    assert {name for name, names in listed.items() if names} == {"usr"}
    assert listed["usr"] == ["usr-personachat"]
    measured = home("agreement", "usr-personachat", "-m", "bleu", *DRAWS, "--json").json
    counts = measured["sets"][0]["counts"]
    assert (counts["rated"], counts["references_themselves"], counts["fair"]) == (18, 6, 12)


def test_a_refused_set_leaves_what_was_there(home: Any, tmp_path: Path) -> None:
    dialogues = tmp_path / "dialogues_train.txt"
    dialogues.write_text("A ? __eou__ B . __eou__\n", "utf-8")
    added = home("sets", "add", "dailydialog:train", "--from", dialogues, "--json").json
    before = Path(added["file"]).read_bytes()
    assert json.loads(before) == {"id": "dailydialog-train/1", "turns": ["A ?", "B ."]}
    dialogues.write_text("A ? __eou__ B . __eou__\nC .\n", "utf-8")
    refused = home("sets", "add", "dailydialog:train", "--from", dialogues)
    assert "dialogues_train.txt, line 2" in refused.err
    empty = tmp_path / "fed_data.json"
    empty.write_text("[]", "utf-8")
    assert str(empty) in home("sets", "add", "fed", "--from", empty).err
    rated = [{"context": "User: Hi", "response": "System: Ho", "system": "x", "annotations": {"Overall": [9]}}]
    empty.write_text(json.dumps(rated), "utf-8")
    assert "fed_data.json, entry 1: ratings" in home("sets", "add", "fed", "--from", empty).err
    assert Path(added["file"]).read_bytes() == before
    assert [path.name for path in Path(added["file"]).parent.iterdir()] == ["dailydialog-train.jsonl"]
