"""How near METEOR without Java comes to METEOR 1.5, the program that nlg-eval runs.

    python bench/bench_meteor.py --jar meteor-1.5.jar --wordnet /usr/share/wordnet

Needs Java and the jar with its table of paraphrases beside it in `data/`, as nlg-eval and pycocoevalcap ship them. The
texts are replies of the demo items: each against the gold and the replies of the other systems. nltk's METEOR, which is
the metric `meteor` of refaug, stands beside them. The figures go to bench/results/meteor.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import write_result

from refaug.library.nlgeval.meteor import MeteorScorer
from refaug.logs.demo.demo_items import DemoItemSettings, demo_item_lines
from refaug.metrics.base import Level, References
from refaug.metrics.specification import build

PACKAGES = ("refaug", "nltk", "numpy")
Cases = list[tuple[str, list[str]]]


def demo_cases(count: int) -> Cases:
    """Return replies with several references each."""
    cases: Cases = []
    for line in demo_item_lines(DemoItemSettings(items=count, seed=1)):
        entry = json.loads(line)
        texts = [entry["references"][0] if isinstance(entry["references"][0], str) else entry["references"][0]["text"]]
        texts += [reply for reply in entry["replies"].values() if reply.strip()]
        cases += [(reply, [text for text in texts if text != reply]) for reply in texts[1:]]
    return [(reply, references) for reply, references in cases if references]


def scores_of_jar(jar: Path, cases: Cases, paraphrases: bool) -> tuple[float, list[float]]:
    """Return the corpus score and the scores of all replies, by the program."""
    modules = [] if paraphrases else ["-m", "exact stem synonym", "-w", "1.0 0.6 0.8"]
    command = ["java", "-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm", *modules]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def answer(line: str) -> str:
            process.stdin.write(f"{line}\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return process.stdout.readline().strip()  # type: ignore[union-attr]

        sums = [answer(" ||| ".join(["SCORE", *references, reply])) for reply, references in cases]
        replies = [float(answer(" ||| ".join(["EVAL", *sums])))]
        replies += [float(process.stdout.readline()) for _ in cases[1:]]
        corpus = float(process.stdout.readline())
        process.stdin.close()
    return corpus, replies


def compared(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Return how far two lists of scores are apart."""
    difference = np.abs(np.array(ours) - np.array(theirs))
    return {
        "pearson": float(np.corrcoef(ours, theirs)[0, 1]),
        "mean_difference": float(difference.mean()),
        "largest_difference": float(difference.max()),
    }


def scores_of_nltk(cases: Cases, wordnet: Path) -> list[float]:
    """Return the metric `meteor` of all replies."""
    metric = build(f"meteor:wordnet={wordnet}")
    prepared = metric.prepare([References.unweighted(references) for _, references in cases])
    places = np.arange(len(cases))
    rows = metric.statistics([reply for reply, _ in cases], prepared, places, places)
    return [float(score) for score in metric.values(rows, Level.REPLY)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jar", type=Path, required=True)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--items", type=int, default=200)
    options = parser.parse_args()
    cases = demo_cases(options.items)
    scorer = MeteorScorer(options.wordnet)
    start = time.perf_counter()
    ours = [scorer.score([case]) for case in cases]
    seconds = time.perf_counter() - start
    corpus, theirs = scores_of_jar(options.jar.resolve(), cases, paraphrases=True)
    _, without_paraphrases = scores_of_jar(options.jar.resolve(), cases, paraphrases=False)
    write_result(
        "meteor",
        {
            "replies": len(cases),
            "replies_per_second": len(cases) / seconds,
            "corpus": {"refaug": scorer.score(cases), "meteor_1.5": corpus},
            "beside_meteor_1.5": compared(ours, theirs),
            "beside_meteor_1.5_without_paraphrases": compared(ours, without_paraphrases),
            "nltk_beside_meteor_1.5": compared(scores_of_nltk(cases, options.wordnet), theirs),
        },
        PACKAGES,
    )


if __name__ == "__main__":
    main()
