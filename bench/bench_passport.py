"""Passports of scripted judges: how often planted weaknesses are found, how often others are, and how intervals cover.

    python bench/bench_passport.py

Judges are those of tests/scripted_judges.py, in this process and without prompts: 100 contexts with two replies each,
rated by two people. PLANTED has the size of each weakness; the share of judges in which its probe is found is its
power, and the share of judges without any in which any probe is found is the family-wise error. `canary` is about the
questions that a passport has asked anew where no fingerprint tells who answers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from common import RESULTS, ROOT, write_result
from scipy import stats

sys.path.append(str(ROOT / "tests"))
from scripted_judges import ScriptedJudge, rated_items

from refaug.extras.judges.language_models.rubric import find_rubric
from refaug.extras.judges.metrics.judged_replies import Judgement, JudgeQuestion
from refaug.extras.judges.passports.probes import (
    ProbedReply,
    ProbeFinding,
    drift_finding,
    family_of,
    probe_judge,
    self_finding,
)
from refaug.extras.judges.passports.validity import CANARIES, CanaryVerdict, CertifiedSpread, look_again
from refaug.extras.judges.passports.worth import LabelledReplies, added_by_references
from refaug.metrics.statistics.prediction_powered import powered_difference, powered_mean

RUBRIC = find_rubric("overall")
CONTEXTS = 100
PLANTED = {
    "order": {"order": 0.1},
    "length": {"per_word": 0.07},  # r = .2 with the length of replies of 3 to 12 words, beside a quality of SD .9
    "self": {"own": 0.3},
    "grade": {"obeys": 0.05},
    "drift": {"drift": 0.3},
}


class InProcess:
    """A scripted judge that is asked without an endpoint; equal questions have other noise on another occasion."""

    def __init__(self, script: ScriptedJudge, occasion: str = "") -> None:
        self._script, self._occasion = script, occasion

    def judge_replies(self, questions: Sequence[JudgeQuestion]) -> list[Judgement]:
        """Rate replies."""
        ratings = [
            self._script.rate(one.reply, (), self._occasion, own=one.reply.startswith("ours")) for one in questions
        ]
        return [Judgement(score=(round(rating) - 1) / 4) for rating in ratings]

    def choices(self, asked: Sequence[tuple[Sequence[str], str, str]]) -> list[str]:
        """Compare replies."""
        return [self._script.prefers(first, second) for _, first, second in asked]


def probed(script: ScriptedJudge, seed: int) -> list[ProbeFinding]:
    """Return the findings about a judge."""
    rows, replies = [], []
    for context, item in enumerate(rated_items(CONTEXTS, seed)):
        questions = [JudgeQuestion(turns=tuple(item["turns"]), reply=reply) for reply in item["replies"].values()]
        means = [float(np.mean(ratings)) for ratings in item["ratings"].values()]
        rows += list(zip(questions, item["ratings"].values(), item["replies"], [context] * 2, strict=True))
        medium = min(range(2), key=lambda place: abs(means[place] - 3))
        best = max(range(2), key=lambda place: means[place])
        replies.append(ProbedReply(context=context, question=questions[medium], best=questions[best]))
    contexts = np.array([context for *_, context in rows])
    asked = [question for question, *_ in rows]
    main, again = (
        np.array([one.score for one in InProcess(script, occasion).judge_replies(asked)]) for occasion in ("", "again")
    )
    judge, noise = InProcess(script), again - main
    findings = probe_judge(judge, judge, RUBRIC, replies, noise)
    ratings = np.array([ratings for _, ratings, *_ in rows], dtype=np.float64)
    systems = [system for *_, system, _ in rows]
    findings.append(self_finding((main + again) / 2, ratings, contexts, systems, {"ours": True, "other": False}))
    return family_of([*findings, drift_finding(noise, contexts)])


def canary(script: ScriptedJudge, seed: int) -> CanaryVerdict:
    """Return what the questions kept by a passport of 200 labels say of a judge that may have drifted since."""
    replies = [reply for item in rated_items(CONTEXTS, seed) for reply in item["replies"].values()]
    asked = [JudgeQuestion(turns=(), reply=reply) for reply in replies]
    steady = replace(script, drift=0.0)
    main, again, later = (
        np.array([one.score for one in InProcess(judge, occasion).judge_replies(asked)])
        for judge, occasion in ((steady, ""), (steady, "again"), (script, "later"))
    )
    kept = np.random.default_rng(seed).permutation(len(main))[:CANARIES]
    return look_again(lambda part: later[kept][part], main[kept], CertifiedSpread.of(again - main))


def canaries(judges: int) -> dict[str, dict[str, float]]:
    """Return how often kept questions make a passport stale, and how many of them are asked a day."""
    found = {}
    for name, drift in (("steady", 0.0), ("drift", PLANTED["drift"]["drift"])):
        verdicts = [canary(ScriptedJudge(seed=seed, drift=drift), 30_000 + seed) for seed in range(judges)]
        found[name] = {
            "stale": sum(verdict.is_beyond for verdict in verdicts) / judges,
            "asked": float(np.mean([verdict.asked for verdict in verdicts])),
        }
        print("canary", name, found[name], flush=True)
    return found


def powers(judges: int) -> dict[str, dict[str, float]]:
    found = {}
    for weakness, planted in PLANTED.items():
        found_in, effects = 0, list[float]()
        for seed in range(judges):
            findings = probed(ScriptedJudge(seed=seed, **planted), seed)
            named = next(one for one in findings if one.name == weakness)
            found_in += named.is_found
            effects.append(named.effect.value)
        found[weakness] = {"power": found_in / judges, "effect": float(np.mean(effects))}
        print(weakness, found[weakness], flush=True)
    return found


def false_alarms(judges: int) -> dict[str, float]:
    alarms, by_probe = 0, dict[str, int]()
    for seed in range(judges):
        findings = probed(ScriptedJudge(seed=seed), 10_000 + seed)
        named = [one.name for one in findings if one.is_found]
        alarms += bool(named)
        for name in named:
            by_probe[name] = by_probe.get(name, 0) + 1
    print("false alarms", alarms / judges, by_probe, flush=True)
    return {
        "family_wise": alarms / judges,
        **{f"of {k}": n / judges for k, n in by_probe.items()},
    }


def reference_scores(script: ScriptedJudge, items: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return the scores of a judge that sees no reference, the gold, and that of another item."""
    shown = {"none": [()] * len(items), "gold": [tuple(item["references"]) for item in items]}
    shown["shuffled"] = [*shown["gold"][1:], shown["gold"][0]]
    return {
        way: np.array(
            [
                (round(script.rate(reply, evidence)) - 1) / 4
                for item, evidence in zip(items, of_items, strict=True)
                for reply in item["replies"].values()
            ]
        )
        for way, of_items in shown.items()
    }


def labels_of(items: Sequence[Mapping[str, Any]]) -> LabelledReplies:
    """Return what people say of the same replies."""
    ratings = np.array([given for item in items for given in item["ratings"].values()], dtype=np.float64)
    return LabelledReplies(ratings=ratings, contexts=np.arange(len(ratings)) // 2, lengths=np.ones(len(ratings)))


def references(judges: int) -> dict[str, dict[str, float]]:
    """Return what references are said to add to a judge whose noise falls by the gold, and to one that ignores it.

    What is planted is the difference of Spearman over 10,000 contexts.
    """
    found = {}
    for name, helps in (("helped", 0.9), ("ignoring", 0.0)):
        script = ScriptedJudge(noise=1.0, golds_help=helps)
        many = rated_items(10_000, 1)
        means, scores = labels_of(many).means, reference_scores(script, many)
        planted = {way: stats.spearmanr(one, means)[0] for way, one in scores.items()}
        added = [
            added_by_references(
                reference_scores(replace(script, seed=seed), items), labels_of(items), draws=500, seed=1
            )
            for seed, items in ((seed, rated_items(CONTEXTS, 40_000 + seed)) for seed in range(judges))
        ]
        for way in ("gold", "shuffled"):
            size, ways = planted[way] - planted["none"], [one[way] for one in added]
            found[f"{name}, {way}"] = {
                "planted": float(size),
                "adds": float(np.mean([one["adds"] for one in ways])),
                "shown": sum(one["shown"] for one in ways) / judges,
                "covered": float(sum(one["interval"][0] <= size <= one["interval"][1] for one in ways)) / judges,
            }
            print(name, way, found[f"{name}, {way}"], flush=True)
    return found


def coverage(simulations: int) -> dict[str, dict[str, float]]:
    """Return how often intervals of a mean and of a difference hold the truth, with ratings and scores on 1 to 5."""
    covered = {}
    everything = _drawn(np.random.default_rng(0), 2_000_000)
    truth = everything[0].mean(), (everything[0] - everything[2]).mean()
    for labels in (50, 100, 300):
        holds, widths = np.zeros(2), np.zeros(2)
        for number in range(simulations):
            ours, judged, others, judged_others = _drawn(np.random.default_rng([1, labels, number]), labels + 1_000)
            ours[labels:], others[labels:] = np.nan, np.nan
            mean = powered_mean(ours, judged)
            gap = powered_difference((ours, others), (judged, judged_others))
            for place, (one, true) in enumerate(zip((mean, gap), truth, strict=True)):
                holds[place] += one.powered.low <= true <= one.powered.high
                widths[place] += one.half_width / ((one.labels_only.high - one.labels_only.low) / 2)
        covered[str(labels)] = {
            "mean": float(holds[0]) / simulations,
            "difference": float(holds[1]) / simulations,
            "width_of_labels_alone": float(widths[0]) / simulations,
        }
        print(labels, covered[str(labels)], flush=True)
    return covered


def _drawn(random: np.random.Generator, rows: int) -> list[np.ndarray]:
    """Return the ratings and scores of two systems; the second is .3 better, and hard contexts are hard for both."""
    context = random.normal(size=rows)
    drawn = []
    for better in (0.0, 0.3):
        quality = 3 + better + 0.6 * context + 0.7 * random.normal(size=rows)
        ratings = np.clip(np.round(quality + 0.4 * random.normal(size=rows)), 1, 5)
        scores = (np.clip(np.round(quality + 0.7 * random.normal(size=rows)), 1, 5) - 1) / 4
        drawn += [ratings, scores]
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a part, the others staying as they are; repeat it")
    parser.add_argument("--judges", type=int, default=200, help="with each weakness")
    parser.add_argument("--blameless", type=int, default=400, help="without any")
    parser.add_argument("--canaries", type=int, default=2_000, help="judges with and without drift")
    parser.add_argument("--simulations", type=int, default=2_000)
    options = parser.parse_args()
    began = time.perf_counter()
    parts: dict[str, Callable[[], object]] = {
        "powers": lambda: powers(options.judges),
        "false_alarms": lambda: false_alarms(options.blameless),
        "canary": lambda: {"judges": options.canaries, **canaries(options.canaries)},
        "references": lambda: references(options.judges),
        "coverage": lambda: coverage(options.simulations),
    }
    before = json.loads((RESULTS / "passport.json").read_text()) if options.only else {}
    result = {
        "contexts": CONTEXTS,
        "judges": options.judges,
        "blameless": options.blameless,
        "simulations": options.simulations,
        "planted": PLANTED,
        **{
            name: before[name] if options.only and name not in options.only else measure()
            for name, measure in parts.items()
        },
        "seconds": round(time.perf_counter() - began + before.get("seconds", 0.0), 1),
    }
    print(write_result("passport", result, ["numpy", "scipy"]))


if __name__ == "__main__":
    main()
