"""The metric `judge` as users type it, against endpoints on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from endpoints import Received, Sent, endpoint, number_logprobs, openai, write_judge

from refaug.bots.endpoint import client
from refaug.metrics.signature import Signature

ITEMS = [
    {
        "id": "d1",
        "turns": ["Hi.", "Tea or coffee?"],
        "references": ["Tea."],
        "replies": {"a": "Tea, please.", "b": "Green"},
    },
    {"id": "d2", "turns": ["Where is my hat?"], "references": ["Here."], "replies": {"a": "On the chair.", "b": ""}},
    {
        "id": "d3",
        "turns": ["Good night!"],
        "references": ["Sleep well."],
        "replies": {"a": "You, too!", "b": "No idea."},
    },
]
RATINGS = {"Tea, please.": 5, "Green": 2, "On the chair.": 4, "You, too!": 5, "No idea.": 1}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(client.ClientSettings, "first_wait_s", 0.001)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return path


def rate(received: Received) -> dict:
    return openai(json.dumps({"overall": RATINGS[received.reply]}))


def systems(result, metric: int = 0) -> dict:
    assert result.code == 0, result.err
    return result.json["scores"][metric]["systems"]


def test_a_judge_scores_beside_other_metrics(home, items: Path) -> None:
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local", "-m", "bleu", "--draws", 0, "--json")
    judged = systems(result)
    assert [reply["score"] for reply in judged["a"]["replies"]] == [1.0, 0.75, 1.0]
    assert [reply["score"] for reply in judged["b"]["replies"]] == [0.25, 0.0, 0.0]  # an empty reply is not sent
    assert judged["a"]["mean"] == judged["a"]["corpus"] == pytest.approx(2.75 / 3)
    assert sorted(received.reply for received in fake.received) == sorted(RATINGS)
    of_first_item = next(received for received in fake.received if received.reply == "Tea, please.")
    assert of_first_item.part("Dialogue, the oldest turn first") == ["Hi.", "Tea or coffee?"]
    signature = Signature.parse(result.json["scores"][0]["signature_full"])
    assert signature.metric == "judge"
    assert signature.settings["rubric"].startswith("overall#")
    assert signature.settings["model"].startswith("local#")
    named = {key: signature.settings[key] for key in ("llm", "fingerprint", "answers", "refs")}
    assert named == {
        "llm": "small", "fingerprint": "fp_1", "answers": "not reproducible", "refs": "none",
    }  # fmt: skip
    assert signature.details["answered-by"] == "large-1"
    assert any("not reproducible" in warning for warning in result.json["warnings"])


def test_answers_are_asked_once(home, items: Path) -> None:
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        first = home("score", items, "-m", "judge:model=local", "--draws", 0, "--json")
        second = home("score", items, "-m", "judge:model=local", "--draws", 0, "--json")
    assert len(fake.received) == 5
    assert systems(first) == systems(second)
    assert "0 asked, 5 from stored answers" in second.json["warnings"][-3]


def test_what_is_no_rating_has_a_reason_and_no_score(home, items: Path) -> None:
    answers = {
        "Tea, please.": openai('{"overall": 5}'),
        "Green": openai("I'm sorry, I can't."),
        "On the chair.": openai("4 of 5"),
        "You, too!": openai('{"overall": 7}'),
        "No idea.": Sent(status=400, body={"error": {"message": "too long"}}),
    }
    with endpoint(lambda received: answers[received.reply]) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local", "--draws", 0, "--json")
    judged = systems(result)
    assert [reply["score"] for reply in judged["a"]["replies"]] == [1.0, None, None]
    assert judged["a"]["mean"] == 1.0
    assert judged["a"]["unscored_by_reason"] == {"judge_nonsense": 1, "judge_off_scale": 1}
    assert judged["b"]["unscored_by_reason"] == {"judge_refused": 1, "judge_failed": 1}
    assert "too long" in judged["b"]["replies"][2]["message"]
    assert any("1 judge_refused" in warning for warning in result.json["warnings"])


def test_samples_are_averaged_over_those_that_count(home, items: Path) -> None:
    def respond(received: Received) -> dict:
        number = received.body["seed"] - 7
        return openai(["no", '{"overall": 2}', '{"overall": 5}'][number])

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        metric = "judge:model=local,samples=3,temperature=0.7,seed=7"
        result = home("score", items, "-m", metric, "--draws", 0, "--json")
    reply = systems(result)["a"]["replies"][0]
    assert reply["score"] == pytest.approx((0.25 + 1.0) / 2)
    assert (reply["parts"]["samples"], reply["parts"]["unusable"]) == (2, 1)
    assert {received.body["temperature"] for received in fake.received} == {0.7}


def test_probabilities_weigh_the_numbers(home, items: Path) -> None:
    def respond(received: Received) -> dict:
        text = '{"overall": 4}'
        return openai(text, logprobs=number_logprobs(text, "4", {"4": 0.5, "5": 0.5}))

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local,score=expected", "--draws", 0, "--json")
    assert systems(result)["a"]["mean"] == pytest.approx(0.875)
    assert fake.received[0].body["logprobs"] is True


def test_an_endpoint_without_probabilities_gives_no_expected_score(home, items: Path) -> None:
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local,score=expected", "-m", "bleu", "--draws", 0, "--json")
    assert systems(result)["a"]["unscored_by_reason"] == {"judge_no_probabilities": 3}


@pytest.mark.parametrize(
    ("fingerprint", "is_steady", "words"),
    [("fp_1", True, "held twice (2 of 2)"), ("", True, "not reproducible"), ("fp_1", False, "not reproducible")],
)
def test_answers_hold_twice_only_with_equal_answers_and_fingerprint(
    home, items: Path, fingerprint: str, is_steady: bool, words: str
) -> None:
    def respond(received: Received) -> dict:
        rating = RATINGS[received.reply] if is_steady or received.number < 5 else 3
        return openai(json.dumps({"overall": rating}), fingerprint=fingerprint)

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local,repeat=2", "--draws", 0, "--json")
    assert systems(result)
    assert Signature.parse(result.json["scores"][0]["signature"]).settings["answers"].startswith(words)
    assert len(fake.received) == 7


def test_weighted_references_are_evidence(home, tmp_path: Path) -> None:
    item = {**ITEMS[0], "references": ["Tea.", {"text": "Coffee.", "weight": 0.5}, {"text": "Beer!", "weight": -0.6}]}
    path = tmp_path / "weighted.jsonl"
    path.write_text(json.dumps(item))
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        for refs in ("weighted", "gold", "none"):
            assert systems(home("score", path, "-m", f"judge:model=local,refs={refs}", "--draws", 0, "--json"))
    evidence = {}
    for received in fake.received:
        parts = [part.split("\n") for part in received.prompt.split("\n\n")]
        shown = next((json.loads(part[1]) for part in parts if part[0].startswith("Replies that")), None)
        evidence[json.dumps(shown)] = True
    weighted = [
        {"reply": "Tea.", "weight": 1.0},
        {"reply": "Coffee.", "weight": 0.5},
        {"reply": "Beer!", "weight": -0.6},
    ]
    assert list(evidence) == [json.dumps(weighted), '["Tea."]', "null"]


def test_a_budget_leaves_out_items_and_not_the_last_system(home, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    lines = [
        {"id": f"d{n}", "utterance": "Hi.", "references": ["Hi."], "replies": {"a": f"a{n}", "b": f"b{n}"}}
        for n in range(9)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with endpoint(lambda _: openai('{"overall": 3}')) as fake:
        write_judge(home.path, fake.url, budget={"tokens": 1_200}, concurrency=1)
        judged = systems(home("score", path, "-m", "judge:model=local", "--draws", 0, "--json"))
        asked = len(fake.received)
        other_seeds = ("-m", "judge:model=local,seed=2", "-m", "judge:model=local,seed=3")
        assert home("score", path, *other_seeds, "--draws", 0).code == 0
        assert len(fake.received) == 2 * asked  # both metrics together have the budget
    scored = {name: system["scored"] for name, system in judged.items()}
    assert abs(scored["a"] - scored["b"]) <= 1
    assert 1 <= scored["a"] < 9
    assert judged["a"]["unscored_by_reason"] == {"judge_over_budget": 9 - scored["a"]}


def test_meta_compares_a_judge_with_other_metrics(home, tmp_path: Path) -> None:
    path = tmp_path / "rated.jsonl"
    lines = [
        {"id": f"d{n}", "utterance": f"Say {n}.", "references": ["Yes."], "replies": {"a": f"{n % 5 + 1} it is"},
         "ratings": {"a": [n % 5 + 1, (n * 7) % 5 + 1]}}
        for n in range(20)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with endpoint(lambda received: openai(json.dumps({"overall": int(received.reply[0])}))) as fake:
        write_judge(home.path, fake.url)
        result = home("agreement", path, "-m", "judge:model=local", "-m", "rouge-l", "--draws", 50, "--json")
    assert result.code == 0, result.err
    assert len(fake.received) == 20
    assert "judge" in result.out


def test_a_backup_holds_judges_and_their_answers(home, home_at, items: Path, tmp_path: Path) -> None:
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        before = home("score", items, "-m", "judge:model=local", "--draws", 0, "--json")
    assert home("admin", "backup", tmp_path / "backup").code == 0
    restored = home_at(tmp_path / "restored")
    result = restored("admin", "restore", tmp_path / "backup")
    assert result.code == 0, result.err
    after = restored("score", items, "-m", "judge:model=local", "--draws", 0, "--json")
    assert systems(after) == systems(before)


# ── verification ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def scores(home, items: Path, tmp_path: Path) -> Path:
    """A score file of a judge whose endpoint is gone."""
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", "judge:model=local", "--draws", 20, "--json")
    path = tmp_path / "scores.json"
    path.write_text(result.out)
    return path


def parts(result) -> dict[str, tuple[str, str]]:
    return {part["part"]: (part["state"], part["message"]) for part in result.json["parts"]}


def test_scores_are_verified_from_stored_answers(home, scores: Path) -> None:
    result = home("score", "verify", scores, "--json")
    assert result.code == 0, result.out
    assert parts(result)["judge"][0] == "holds"
    assert "was not asked" in parts(result)["judge"][1]
    assert parts(result)["reply scores"][0] == "holds"


def test_without_stored_answers_a_judge_cannot_be_verified(home, scores: Path) -> None:
    for path in (home.path / "judgements").iterdir():
        path.unlink()
    result = home("score", "verify", scores, "--json")
    assert result.code == 3
    assert parts(result)["judge"][0] == "missing"
    assert "not reproducible" in parts(result)["judge"][1]
    assert parts(result)["scores"][0] == "unchecked"


def test_a_judge_that_is_gone_or_has_changed_is_said(home, scores: Path) -> None:
    write_judge(home.path, "http://127.0.0.1:1/v1")
    changed = home("score", "verify", scores, "--json")
    assert (changed.code, parts(changed)["judge"][0]) == (6, "differs")
    assert "the scores were made by judge local#" in parts(changed)["judge"][1]
    (home.path / "judges" / "local.json").unlink()
    gone = home("score", "verify", scores, "--json")
    assert (gone.code, parts(gone)["judge"][0]) == (3, "missing")


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_endpoint_that_answers_html_is_named(home, items: Path) -> None:
    page = Sent(body=b"<!doctype html><title>Sign in</title>", headers={"Content-Type": "text/html"})
    with endpoint(lambda _: page) as fake:
        write_judge(home.path, fake.url, tries=1)
        result = home("score", items, "-m", "judge:model=local", "--json")
    assert systems(result)["a"]["unscored_by_reason"] == {"judge_failed": 3}
    assert "answers HTML, not JSON" in systems(result)["a"]["replies"][0]["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-m", "judge"], 2, "judge"),
        (["-m", "judge:model=locale"], 3, "locale"),
        (["-m", "judge:model=./nowhere.json"], 3, "nowhere.json"),
        (["-m", "judge:model=local,rubric=warmth"], 2, "warmth"),
        (["-m", "judge:model=local,samples=3"], 2, "at temperature 0"),
        (["-m", "judge:model=local,refs=weighted"], 3, "no item has other references than golds"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(
    home, items: Path, arguments: list[str], code: int, words: str
) -> None:
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, *arguments, "--json")
    assert (result.code, words in result.error["message"]) == (code, True), result.err
    assert not fake.received


def test_a_rubric_without_a_scale_is_refused(home, items: Path, tmp_path: Path) -> None:
    rubric = tmp_path / "warmth.toml"
    rubric.write_text('name = "warmth"\ntask = "t"\n[[criteria]]\nname = "warmth"\nquestion = "q"\n')
    with endpoint(rate) as fake:
        write_judge(home.path, fake.url)
        result = home("score", items, "-m", f"judge:model=local,rubric={rubric}", "--json")
    assert (result.code, "has no scale" in result.error["message"]) == (3, True)


def test_a_key_in_the_address_is_refused(home, items: Path) -> None:
    write_judge(home.path, "https://api.example.com/v1?key=abc")
    result = home("score", items, "-m", "judge:model=local", "--json")
    assert (result.code, "key in it" in result.error["message"]) == (3, True)
    assert "abc" not in result.err


# ── refaug judge ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_check_says_what_the_endpoint_gives(home) -> None:
    text = '{"overall": 4}'
    answer = openai(text, logprobs=number_logprobs(text, "4", {"4": 0.75, "5": 0.25}))
    with endpoint(lambda _: answer) as fake:
        write_judge(home.path, fake.url)
        result = home("judge", "check", "local", "--json")
    assert result.json == {
        "rating": 4.0, "problem": None, "expected": 4.25, "text": text, "model": "large-1", "fingerprint": "fp_1",
        "prompt_tokens": 100, "answer_tokens": 7,
    }  # fmt: skip


def test_check_ends_with_a_code_that_says_what_is_wrong(home) -> None:
    with endpoint(lambda _: Sent(status=404, body={"error": {"message": "no such model"}})) as fake:
        write_judge(home.path, fake.url)
        missing = home("judge", "check", "local", "--json")
        fake.respond = lambda _: openai("hello")
        chatty = home("judge", "check", "local", "--json")
    assert (missing.code, "no such model" in missing.error["message"]) == (4, True)
    assert chatty.code == 3


def test_judges_and_rubrics_are_listed(home) -> None:
    write_judge(home.path, "http://127.0.0.1:1/v1")
    (home.path / "judges" / "bad.toml").write_text("url = 3\n")
    judges = home("judge", "list", "--json").json["judges"]
    assert [(judge["name"], judge["model"]) for judge in judges] == [("bad", "-"), ("local", "small")]
    names = [rubric["name"] for rubric in home("judge", "rubrics", "--json").json["rubrics"]]
    assert names == ["appropriateness", "overall", "relevance"]
    assert "Reply to judge:" in home("judge", "rubrics", "relevance").out
