"""`refaug judge certify`: passports of scripted judges, what they cost, when they hold, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from endpoints import FakeEndpoint, Received, endpoint, openai, write_judge
from scripted_judges import ScriptedJudge, answer, as_json, rated_items

from refaug.core.home import Settings
from refaug.extras.judges.passports.binding import open_passport
from refaug.extras.judges.passports.stored_passports import save_passport

CONTEXTS = 60


class Judged:
    """An endpoint that answers as a scripted judge; equal questions get other noise each time that they are asked."""

    def __init__(self, judge: ScriptedJudge, fingerprint: str = "fp_1") -> None:
        self.judge, self.fingerprint = judge, fingerprint
        self.asked = Counter[str]()
        self.stops_after: int | None = None

    def __call__(self, received: Received) -> dict[str, Any]:
        if self.stops_after is not None and received.number >= self.stops_after:
            self.fingerprint = "fp_2"
        times = self.asked[received.prompt]
        self.asked[received.prompt] += 1
        said = answer(self.judge, received.prompt, str(times) if times else "", received.part)
        return openai(as_json(said), fingerprint=self.fingerprint)


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return write_items(tmp_path / "rated.jsonl", rated_items(CONTEXTS, 1))


def write_items(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@contextmanager
def judged(home: Any, judge: ScriptedJudge, **more: Any) -> Iterator[tuple[Judged, FakeEndpoint]]:
    script = Judged(judge, **more)
    with endpoint(script) as fake:
        write_judge(home.path, fake.url)
        yield script, fake


def certify(home: Any, items: Path, *more: object) -> Any:
    return home("judge", "certify", "local", items, "--name", "mine", *more, "--json")


def test_a_good_judge_gets_a_passport_of_figures_without_texts(home, items: Path) -> None:
    with judged(home, ScriptedJudge(golds_help=0.9, noise=0.8)) as (_, fake):
        found = certify(home, items, "--own", "ours").json
        asked = len(fake.received)
        again = certify(home, items, "--own", "ours").json
        assert len(fake.received) == asked + 1  # which version answers is asked each time, and nothing else
    passport = found["passport"]
    assert passport["certified"], passport["why_not"]
    assert {**again["passport"], "seed": 1} == passport
    agreement = passport["agreement"]["given_length"]
    assert 0.4 < agreement["interval"][0] < agreement["value"] < agreement["interval"][1] < 0.95
    assert passport["ceiling"]["figure"] == "spearman"
    assert 0.7 < passport["ceiling"]["value"] < 0.95
    assert passport["labels"] == 2 * CONTEXTS
    assert "needs the encoder" in passport["beside"]["refaug-1"]["why"]
    assert [one["probe"] for one in passport["probes"] if one["found"]] == []
    assert [one["probe"] for one in passport["probes"]] == [
        "order", "length", "verbosity", "grade", "tags", "null", "constant", "self", "drift",
    ]  # fmt: skip
    assert passport["references"]["gold"]["shown"]
    assert passport["references"]["gold"]["adds"] > 0.05
    assert not passport["references"]["shuffled"]["shown"]
    assert 0.1 < passport["spread"]["answers"] < 0.3
    stored = open_passport(Settings(home=home.path), "mine").figures
    assert "What about" not in json.dumps(stored)
    assert "q3" not in json.dumps(stored)
    shown = home("artefacts", "show", "passport", "mine")
    assert "agreement with people" in shown.out
    assert home("artefacts", "verify", "passport", "mine").code == 0
    listed = home("artefacts", "list", "passport", "--json").json
    assert "mine" in json.dumps(listed)


def test_a_judge_that_obeys_and_likes_length_is_found_and_not_certified(home, items: Path) -> None:
    with judged(home, ScriptedJudge(obeys=0.2, per_word=0.08, likes_nothing=3.5)):
        passport = certify(home, items).json["passport"]
    found = {one["probe"] for one in passport["probes"] if one["found"]}
    assert found >= {"grade", "tags", "length", "null", "constant"}
    assert not passport["certified"]
    assert any(why.startswith("probe grade") for why in passport["why_not"])


@pytest.mark.parametrize("tokens", [45_000, 57_000])  # spent while the noise is measured, or the probes
def test_a_budget_that_ends_before_the_probes_certifies_nothing(home, items: Path, tokens: int) -> None:
    with endpoint(Judged(ScriptedJudge())) as fake:
        write_judge(home.path, fake.url, budget={"tokens": tokens})
        ended = certify(home, items)
        assert (ended.code, "the budget is spent" in ended.err) == (4, True), ended.err
        assert home("artefacts", "list", "passport", "--json").json == {"versions": []}
        write_judge(home.path, fake.url)
        assert certify(home, items).json["passport"]["certified"]


def test_a_probe_whose_answers_cannot_be_read_certifies_nothing(home, items: Path) -> None:
    script = Judged(ScriptedJudge())

    def respond(received: Received) -> dict[str, Any]:
        return openai("As you wish.") if "</reply>" in received.prompt else script(received)

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        passport = certify(home, items).json["passport"]
    assert (passport["certified"], [why[:13] for why in passport["why_not"]]) == (False, ["probe tags: 0"])


def test_scores_warn_without_a_passport_and_are_refused_where_one_is_required(
    home, items: Path, tmp_path: Path
) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    rubric = tmp_path / "warm.toml"
    text = 'name = "warm"\ntask = "Judge it."\nscale = [1, 5]\n[[criteria]]\nname = "overall"\nquestion = "Good?"\n'
    rubric.write_text(text)
    metric = ("-m", f"judge:model=local,rubric={rubric}", "--draws", 0, "--json")
    with judged(home, ScriptedJudge()):
        plain = home("score", few, *metric)
        assert any("judge local has no passport" in warning for warning in plain.json["warnings"])
        refused = home("score", few, *metric, "--require-passport")
        assert (refused.code, "judge local has no passport" in refused.err) == (3, True)
        assert certify(home, items, "--rubric", rubric).json["passport"]["certified"]
        held = home("score", few, *metric, "--require-passport")
        assert held.code == 0, held.err
        assert not any("passport" in warning for warning in held.json["warnings"])
        rubric.write_text(text.replace("Good", "Gold"))  # one letter
        changed = home("score", few, *metric, "--require-passport")
        assert changed.code == 3
        assert "is for rubric warm#" in changed.err
    assert home("score", few, "-m", "bleu", "--require-passport").code == 2


def test_another_fingerprint_has_the_kept_questions_asked_anew(home, items: Path, tmp_path: Path) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    metric = ("-m", "judge:model=local", "--draws", 0, "--json")
    with judged(home, ScriptedJudge()) as (script, fake):
        assert certify(home, items).json["passport"]["certified"]
        script.fingerprint = "fp_2"
        before = len(fake.received)
        same = home("score", few, *metric, "--require-passport")
        assert same.code == 0, same.err
        assert len(fake.received) == before + 6 + 30
        script.judge = ScriptedJudge(drift=-1.0)
        script.fingerprint = "fp_3"
        other = write_items(tmp_path / "other.jsonl", rated_items(3, 10))
        stale = home("score", other, *metric, "--require-passport")
        assert (stale.code, "is stale" in stale.err) == (3, True)
        assert any("is stale" in warning for warning in home("score", other, *metric).json["warnings"])


@pytest.mark.parametrize("build", ["b4321-1a2b3c4", ""])
def test_a_fingerprint_that_says_nothing_of_the_weights_has_questions_asked_each_day(
    home, items: Path, tmp_path: Path, build: str
) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    with judged(home, ScriptedJudge(), fingerprint=build) as (script, fake):
        assert certify(home, items).json["passport"]["certified"]
        script.judge = ScriptedJudge(drift=-1.0)  # other weights behind the same name
        before = len(fake.received)
        stale = home("score", few, "-m", "judge:model=local", "--draws", 0, "--json", "--require-passport")
        assert (stale.code, "is stale" in stale.err) == (3, True)
        assert len(fake.received) == before + 6 + 30
        script.judge = ScriptedJudge(noise=0)  # certified again, the same judge is asked anew
        first = open_passport(Settings(home=home.path), "mine").figures
        assert certify(home, items).json["passport"]["agreement"] != first["agreement"]
        held = home("score", few, "-m", "judge:model=local", "--draws", 0, "--json", "--require-passport")
        assert held.code == 0, held.err


def test_kept_questions_without_an_answer_show_no_other_judge(home, items: Path, tmp_path: Path) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    score = ("score", few, "-m", "judge:model=local", "--draws", 0, "--json")
    with judged(home, ScriptedJudge(), fingerprint="") as (_, fake):
        assert certify(home, items).json["passport"]["certified"]
        write_judge(home.path, fake.url, concurrency=1, budget={"tokens": 1_000})
        refused = home(*score, "--require-passport")
        assert (refused.code, "still the same cannot be seen" in refused.err) == (4, True), refused.err
        [warning] = [text for text in home(*score).json["warnings"] if "passport" in text]
        assert "the budget is spent" in warning
        write_judge(home.path, fake.url)
        assert home(*score, "--require-passport").code == 0


def test_a_passport_holds_for_scores_with_another_seed(home, items: Path, tmp_path: Path) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))

    def respond(received: Received) -> dict[str, Any]:  # equal seeds have equal answers
        said = answer(ScriptedJudge(noise=0.8), received.prompt, str(received.body["seed"]), received.part)
        return openai(as_json(said), fingerprint="")

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url)
        assert certify(home, items).json["passport"]["certified"]
        held = home("score", few, "-m", "judge:model=local,seed=2", "--draws", 0, "--require-passport")
    assert held.code == 0, held.err


def test_the_passport_that_was_published_last_counts(home, items: Path, tmp_path: Path) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    score = ("score", few, "-m", "judge:model=local", "--draws", 0, "--require-passport")
    with judged(home, ScriptedJudge()):
        for name, least, code in (("mine", 0.2, 0), ("zeal", 0.99, 3), ("mine", 0.2, 0), ("able", 0.99, 3)):
            assert home("judge", "certify", "local", items, "--name", name, "--least", least).code == 0
            said = home(*score)
            assert (said.code, f"passport {name}@" in said.err) == (code, code == 3)
        settings = Settings(home=home.path)
        figures = open_passport(settings, "mine").figures
        save_passport(settings, "mine", {**figures, "spread": {**figures["spread"], "differences": None}})
        assert "noise was not measured" in home(*score).err  # versions before this one certified such a judge


def test_a_version_that_changes_midway_is_named_and_its_answers_are_kept(home, items: Path) -> None:
    with judged(home, ScriptedJudge()) as (script, fake):
        script.stops_after = 80
        result = certify(home, items)
        assert (result.code, "changed its version" in result.err) == (4, True)
        assert "large-1 fp_2" in result.err
        script.stops_after, script.fingerprint = None, "fp_1"
        before = len(fake.received)
        assert certify(home, items).json["passport"]["certified"]
        kept = sum(count == 1 for count in script.asked.values())
    assert kept > 0
    assert len(fake.received) - before < sum(script.asked.values())


def test_an_endpoint_of_two_versions_is_certified_by_the_answers_of_one(home, items: Path) -> None:
    with judged(home, ScriptedJudge()) as (script, _):

        def respond(received: Received) -> dict[str, Any]:
            script.fingerprint = "fp_2" if received.number % 3 == 1 else "fp_1"
            return script(received)

        with endpoint(respond) as fake:
            write_judge(home.path, fake.url)
            found = certify(home, items)
    assert found.code == 0, found.err
    assert found.json["passport"]["answered_by"] == {"name": "large-1 fp_1", "fingerprint": "fp_1"}


@pytest.mark.slow
def test_killed_in_the_midst_it_goes_on_without_asking_again(home, items: Path) -> None:
    killed_at, command = 200, [sys.executable, "-m", "refaug", "--home", str(home.path), "judge", "certify", "local"]
    keys, running = list[str](), list[subprocess.Popen[bytes]]()
    script = Judged(ScriptedJudge())

    def respond(received: Received) -> dict[str, Any]:
        keys.append(received.headers["idempotency-key"])
        if len(keys) == killed_at:
            running[0].kill()
        return script(received)

    with endpoint(respond) as fake:
        write_judge(home.path, fake.url, concurrency=1)
        running.append(subprocess.Popen([*command, str(items), "--name", "mine"], stderr=subprocess.DEVNULL))
        assert running[0].wait(120) == -signal.SIGKILL
        assert len(keys) == killed_at
        found = certify(home, items).json["passport"]
        asked = len(keys)
        again = certify(home, items).json["passport"]
        assert len(keys) == asked + 1
    assert found == again
    version, lost = keys[0], keys[killed_at - 1]  # which version answers is asked each time; one answer was on its way
    assert {key: count for key, count in Counter(keys[:asked]).items() if count > 1} == {lost: 2, version: 2}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (rated_items(9, 1), "18 replies have labels"),
        (rated_items(20, 1), "40 replies have labels"),
        (
            [{**item, "ratings": {"ours": [1, 1, 0], "other": [1]}, "scale": [0, 1]} for item in rated_items(30, 1)],
            "have the same label",
        ),
        ([{**item, "ratings": {"ours": [3], "other": [3]}} for item in rated_items(30, 1)], "have the same label"),
        ([{**item, "turns": ["Same?"]} for item in rated_items(30, 1)], "are of 1 contexts"),
    ],
)
def test_labels_that_certify_nothing_are_refused(home, tmp_path: Path, lines: list[dict[str, Any]], said: str) -> None:
    write_judge(home.path, "http://127.0.0.1:9/v1")
    result = certify(home, write_items(tmp_path / "rated.jsonl", lines))
    assert (result.code, said in result.err) == (3, True), result.err


def test_contexts_that_the_judge_was_trained_on_are_refused(home, items: Path, tmp_path: Path) -> None:
    write_judge(home.path, "http://127.0.0.1:9/v1")
    seen = write_items(tmp_path / "seen.jsonl", rated_items(CONTEXTS, 1)[7:8])
    result = certify(home, items, "--trained-on", seen)
    assert (result.code, "item i7 has the context of i7" in result.err) == (3, True), result.err


def test_references_that_a_judge_ignores_are_not_shown_to_add_anything(home, items: Path) -> None:
    with judged(home, ScriptedJudge(noise=0.8)):
        certified = certify(home, items)
    references = certified.json["passport"]["references"]
    assert [references[way]["shown"] for way in ("gold", "shuffled")] == [False, False]
    for way in ("gold", "shuffled"):
        low, high = references[way]["interval"]
        assert low < 0 < high
    assert "not shown" in home("artefacts", "show", "passport", "mine").out


def test_labels_of_pass_or_fail_certify_by_kappa(home, tmp_path: Path) -> None:
    lines = rated_items(CONTEXTS, 1)
    for line in lines:
        line["ratings"] = {name: [int(rating >= 3) for rating in given] for name, given in line["ratings"].items()}
    with judged(home, ScriptedJudge()):
        found = certify(home, write_items(tmp_path / "pass.jsonl", [{**one, "scale": [0, 1]} for one in lines]))
    assert found.code == 0, found.err
    passport = found.json["passport"]
    assert passport["least"]["figure"] == "kappa"
    assert set(passport["agreement"]) == {"kappa", "alpha", "tpr", "tnr", "spearman", "given_length"}
    assert 0.5 < passport["agreement"]["kappa"]["interval"][0] < passport["agreement"]["kappa"]["value"] < 1
    assert passport["ceiling"]["figure"] == "kappa"
    assert passport["certified"], passport["why_not"]
