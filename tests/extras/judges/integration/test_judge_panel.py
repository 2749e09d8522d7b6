"""Panels of scripted judges: scores, what a failing member costs, gain over the best one, and reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endpoints import FakeEndpoint, Received, endpoint, openai, write_judge
from scipy.stats import spearmanr
from scripted_judges import ScriptedJudge, rated_items
from serving import client_of

import refaug
from refaug.core.home import Settings

CONTEXTS = 60
RUBRIC = """
name = "{name}"
task = "Judge the reply."
scale = [1, 5]
{more}
[[criteria]]
name = "fit"
question = "Does it fit?"
[[criteria]]
name = "tact"
question = "Is it kind?"
[[criteria]]
name = "wit"
question = "Is it funny?"
"""


class Rating:
    """An endpoint that rates every criterion as a scripted judge."""

    def __init__(self, judge: ScriptedJudge, *, fails_on: str = "", reason: str | None = None) -> None:
        self.judge, self.fails_on, self.reason = judge, fails_on, reason

    def __call__(self, received: Received) -> dict[str, Any]:
        form = received.prompt.rpartition("{")[2]
        names = [name for name in ("overall", "fit", "tact", "wit") if f'"{name}":' in form]
        if self.fails_on and self.fails_on in received.reply:
            return openai("I cannot say.")
        said: dict[str, Any] = dict.fromkeys(names, round(self.judge.rate(received.reply)))
        if self.reason is not None:
            said["reason"] = self.reason
        return openai(json.dumps(said))


@contextmanager
def judges(home: Any, **raters: Rating) -> Iterator[list[FakeEndpoint]]:
    """An endpoint for each judge of the home."""
    if not raters:
        yield []
        return
    (name, rater), *others = raters.items()
    with endpoint(rater) as fake:
        write_judge(home.path, fake.url, name=name)
        with judges(home, **dict(others)) as more:
            yield [fake, *more]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    return write_items(tmp_path / "rated.jsonl", rated_items(CONTEXTS, 1))


def write_items(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


PANEL = "panel:of=judge;model=a+judge;model=b+judge;model=c"


def of_people(path: Path) -> list[float]:
    lines = map(json.loads, path.read_text().splitlines())
    return [float(np.mean(given)) for line in lines for given in line["ratings"].values()]


def test_three_judges_together_agree_better_with_people_than_the_best_of_them(home, items: Path) -> None:
    raters = {name: Rating(ScriptedJudge(seed=seed, noise=1.2)) for seed, name in enumerate("abc")}
    with judges(home, **raters) as fakes:
        found = home("judge", "panel", items, "-m", f"{PANEL},blend=mean", "--draws", 500, "--json").json
        asked = sum(len(fake.received) for fake in fakes)
        shown = home("judge", "panel", items, "-m", f"{PANEL},blend=mean", "--draws", 500)
        assert sum(len(fake.received) for fake in fakes) == asked == 3 * 2 * CONTEXTS
    people = of_people(items)
    scores = [reply["score"] for reply in found["replies"]]
    own = {f"{n + 1} judge {name}": [one["verdicts"][f"{n + 1} judge {name}"] for one in found["replies"]]
           for n, name in enumerate("abc")}  # fmt: skip
    assert scores == pytest.approx(np.mean(list(own.values()), axis=0).tolist())
    expected = {name: spearmanr(verdicts, people)[0] for name, verdicts in own.items()}
    assert {one["member"]: one["spearman"]["value"] for one in found["members"]} == pytest.approx(expected)
    assert found["best"] == max(expected, key=expected.__getitem__)
    assert found["gain"]["value"] == pytest.approx(spearmanr(scores, people)[0] - max(expected.values()))
    assert found["gain"]["shown"]
    assert 0.05 < found["gain"]["value"] < 0.35
    assert 0.1 < found["alpha"]["interval"][0] < found["alpha"]["value"] < 0.7
    assert "gain over" in shown.out
    assert "not shown" not in shown.out


@pytest.mark.parametrize("blend", ["mean", "median", "trimmed", "weighted,weights=2+1+1"])
def test_copies_of_one_judge_gain_nothing(home, items: Path, blend: str) -> None:
    with judges(home, **{name: Rating(ScriptedJudge(noise=1.2)) for name in "abc"}):
        found = home("judge", "panel", items, "-m", f"{PANEL},blend={blend}", "--draws", 300, "--json").json
        shown = home("judge", "panel", items, "-m", f"{PANEL},blend={blend}", "--draws", 300)
    assert found["alpha"]["value"] == pytest.approx(1)
    assert (found["gain"]["value"], found["gain"]["shown"]) == (pytest.approx(0, abs=1e-12), False)
    assert "not shown" in shown.out


def test_a_failing_member_costs_its_own_verdict_alone_and_is_counted(home, items: Path) -> None:
    silent = Rating(ScriptedJudge(seed=2), fails_on="q3")
    failed = sum("q3" in reply for line in rated_items(CONTEXTS, 1) for reply in line["replies"].values())
    with judges(home, a=Rating(ScriptedJudge()), b=Rating(ScriptedJudge(seed=1)), c=silent):
        result = home("score", items, "-m", f"{PANEL},blend=mean", "--draws", 0, "--json")
        worth = home("judge", "panel", items, "-m", f"{PANEL},blend=mean", "--draws", 200, "--json").json
    [scored] = result.json["scores"]
    systems = scored["systems"]
    assert sum(system["unscored"] for system in systems.values()) == 0
    assert sum(system["parts"]["missing"].get("3 judge c", 0) for system in systems.values()) == failed > 5
    assert any("3 judge c has no verdict" in warning for warning in result.json["warnings"])
    replies = [reply for system in systems.values() for reply in system["replies"]]
    for reply in replies:
        verdicts = [one for one in reply["parts"]["verdicts"].values() if one is not None]
        assert reply["score"] == pytest.approx(np.mean(verdicts))
    assert [one["missing"] for one in worth["members"]] == [0, 0, failed]
    assert worth["labels"] == 2 * CONTEXTS


def test_a_panel_of_judges_and_metrics_is_verified_from_its_signature(home, items: Path, tmp_path: Path) -> None:
    text = "panel:of=judge;model=a+chrf+rouge-l;measure=recall,blend=median"
    with judges(home, a=Rating(ScriptedJudge())):
        scored = home("score", items, "-m", text, "--draws", 0, "--json")
    assert scored.code == 0, scored.err
    (tmp_path / "scores.json").write_text(scored.out)
    signature = scored.json["scores"][0]["signature_full"]
    assert "|fingerprint-1:fp_1|" in signature
    assert "of:judge;model=a#" in signature
    verified = home("score", "verify", tmp_path / "scores.json", items, "--json")  # the endpoint is gone
    assert verified.code == 0, verified.out + verified.err
    refused = home("score", items, "-m", text, "--draws", 0, "--require-passport")
    assert (refused.code, "judge a has no passport" in refused.err) == (3, True)


def test_a_server_without_judge_hosts_asks_no_member(tmp_path: Path) -> None:
    home = Settings(home=tmp_path / "home")
    items = [{"id": "d", "utterance": "Hi?", "references": ["Yes."], "replies": {"s": "No."}}]
    with endpoint(Rating(ScriptedJudge())) as fake:
        write_judge(home.home, fake.url, name="a")
        with client_of(home) as web:
            answer = web.post("/v1/scores", json={"items": items, "metrics": ["panel:of=judge;model=a+chrf"]})
            assert (answer.status_code, answer.json()["code"]) == (400, "usage")
        with client_of(home, judge_hosts="127.0.0.1") as web:
            answer = web.post("/v1/scores", json={"items": items, "metrics": ["panel:of=judge;model=a+chrf"]})
            assert answer.status_code == 200, answer.text
            assert len(fake.received) == 1


def test_reasons_are_kept_shown_on_request_and_never_scored(home, tmp_path: Path) -> None:
    few = write_items(tmp_path / "few.jsonl", rated_items(3, 9))
    rubric = tmp_path / "why.toml"
    rubric.write_text(RUBRIC.format(name="why", more="reasons = true"))
    metric = f"judge;model=a;rubric={rubric}+judge;model=b"
    with judges(home, a=Rating(ScriptedJudge(), reason="It is a 1 of 5."), b=Rating(ScriptedJudge())) as fakes:
        plain = home("score", few, "-m", f"panel:of={metric}", "--draws", 0, "--json").json
        told = home("score", few, "-m", f"panel:of={metric}", "--draws", 0, "--explain", "--json").json
        alone = home("score", few, "-m", f"judge:model=a,rubric={rubric}", "--draws", 0, "--explain", "--json").json
        printed = home("score", few, "-m", f"panel:of={metric}", "--draws", 0, "--explain")
        lines = list(map(json.loads, few.read_text().splitlines()))
        in_python = refaug.score(lines, metric=f"panel:of={metric}", home=home.path, explain=True)
        worth = home("judge", "panel", few, "-m", f"panel:of={metric}", "--draws", 100, "--reasons")
        asked = len(fakes[0].received)
    assert asked == 6
    without = [reply for system in plain["scores"][0]["systems"].values() for reply in system["replies"]]
    replies = [reply for system in told["scores"][0]["systems"].values() for reply in system["replies"]]
    assert [reply["score"] for reply in replies] == [reply["score"] for reply in without]
    assert all("reasons" not in reply for reply in without)
    assert [reply["reasons"] for reply in replies] == [[{"member": "1 judge a", "reason": "It is a 1 of 5."}]] * 6
    for system in alone["scores"][0]["systems"].values():
        assert all(reply["reasons"] == [{"reason": "It is a 1 of 5."}] for reply in system["replies"])
    assert printed.out.count("1 judge a: It is a 1 of 5.") == 6
    assert [reply.reasons for reply in in_python.metric["ours"].details] == [reply["reasons"] for reply in replies[:3]]
    assert worth.out.count("It is a 1 of 5.") == 6


def test_the_order_of_criteria_is_drawn_for_each_question_and_counted(home, items: Path, tmp_path: Path) -> None:
    rubric = tmp_path / "three.toml"
    rubric.write_text(RUBRIC.format(name="three", more=""))
    with judges(home, a=Rating(ScriptedJudge())) as [fake]:
        result = home("score", items, "-m", f"judge:model=a,rubric={rubric}", "--draws", 0, "--json")
        firsts = [received.prompt.partition("\n1. ")[2].partition(":")[0] for received in fake.received]
        forms = [received.prompt.rpartition("{")[2].partition(":")[0] for received in fake.received]
        again = home("score", items, "-m", f"judge:model=a,rubric={rubric}", "--draws", 0, "--json")
        assert len(fake.received) == 2 * CONTEXTS  # the same orders again: all answers are stored
        home("score", items, "-m", f"judge:model=a,rubric={rubric},seed=2", "--draws", 0, "--json")
        others = [received.prompt.partition("\n1. ")[2].partition(":")[0] for received in fake.received[2 * CONTEXTS :]]
    counts = {name: firsts.count(name) for name in ("fit", "tact", "wit")}
    assert sum(counts.values()) == 2 * CONTEXTS
    assert all(25 <= count <= 55 for count in counts.values()), counts  # 40 expected, SD 5.2
    assert [form.strip('"') for form in forms] == firsts
    assert others != firsts
    told = next(line for line in result.json["warnings"] if "order of criteria" in line)
    assert told.endswith(", ".join(f"{name} {count} times" for name, count in counts.items()))
    assert again.json["scores"] == result.json["scores"]


def test_what_is_no_panel_is_refused(home, items: Path) -> None:
    result = home("judge", "panel", items, "-m", "chrf")
    assert (result.code, "is not a panel" in result.err) == (2, True)
    nothing = home("judge", "panel", items, "-m", "panel:of=judge+chrf")
    assert (nothing.code, "panel:of=judge;model=NAME" in nothing.err) == (2, True)
