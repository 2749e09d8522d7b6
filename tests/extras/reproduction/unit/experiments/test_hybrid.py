"""The report on whole conversations in small: sets of columns, the comparison with counts, figures of turns."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from proofs import TEXTS, TinyChain, tiny_chain
from refusals import refusing
from scipy import stats

from refaug.core.errors import NotFound
from refaug.extras.reproduction.experiments.hybrid import DEGRADED, STUDY, hybrid
from refaug.extras.reproduction.report.report import short

BOTS = ("a", "b", "c", "d", "e", DEGRADED)


def write_study(chain: TinyChain, conversations: int = 72) -> list[dict[str, Any]]:
    """Write conversations of texts of the logs; longer ones are rated higher."""
    rng = random.Random(4)
    talks = []
    for number in range(conversations):
        turns = 4 + 2 * (number % 4)
        talks.append(
            {
                "id": f"c{number}",
                "bot": BOTS[number % 6],
                "participant": f"p{number // 6}",
                "turns": [
                    {"role": ("participant", "bot")[place % 2], "text": rng.choice(TEXTS)} for place in range(turns)
                ],
                "ratings": {"quality": 5 * turns + rng.randint(0, 9), "dull": rng.randint(0, 100)},
                "scale": [0, 100],
                "reversed": ["dull"],
            }
        )
    path = chain.settings.data / "dialogues" / f"{STUDY}.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, talks))))
    return talks


@pytest.mark.slow
def test_a_report_has_every_set_beside_the_counts(tmp_path: Path) -> None:
    chain = tiny_chain(tmp_path, draws=100)
    talks = write_study(chain)
    report = hybrid(chain, [])
    reports = report.data["reports"]
    assert list(reports) == ["all bots", "without the degraded bot", "ratings in deviations of their person"]
    of_all = reports["all bots"]
    assert [row["bot"] for row in of_all["bots"]] == sorted(BOTS)
    judged = ["rater:refs=none", "rater:refs=none,turns=3", "upsilon-bleu"]
    assert of_all["sets"]["judged"]["columns"] == judged
    assert of_all["sets"]["wide"]["columns"][-3:] == judged
    assert [row["bot"] for row in reports["without the degraded bot"]["bots"]] == list("abcde")
    assert report.data["study"] == {**report.data["study"], "name": STUDY, "conversations": 72, "people": 12}
    means = {
        bot: np.mean([(talk["ratings"]["quality"] + 100 - talk["ratings"]["dull"]) / 2 for talk in talks[place::6]])
        for place, bot in enumerate(BOTS)
    }
    assert {row["bot"]: row["mean"] for row in of_all["bots"]} == pytest.approx(means)
    turns = [np.mean([np.log(len(talk["turns"])) for talk in talks[place::6]]) for place in range(6)]
    alone = of_all["alone"]["log-turns"]["pearson"]
    assert alone == pytest.approx(stats.pearsonr(turns, list(means.values())).statistic)
    assert any(line.startswith("all bots: wide ") and "better than" in line for line in report.summary)
    tables = {table.title: table for section in report.sections for table in section.tables}
    fitted = tables["Fitted, all bots"]
    assert [row[0] for row in fitted.rows] == list(of_all["sets"])
    control = of_all["sets"]["hybrid"]["shuffled_in_folds"]
    mean = dict(zip(fitted.columns, fitted.rows[0], strict=True))["in folds: mean"]
    low, high = (control["mean"] + sign * 1.96 * control["error"] for sign in (-1, 1))
    assert mean == f"{short(control['mean'])} [{short(low, 2)}, {short(high, 2)}]"
    assert len(tables["Figures of turns"].rows) == 15
    assert report.notes == ("no VHRED is named (--vhred): no likelihood of turns",)


def test_data_without_the_study_is_named(tmp_path: Path) -> None:
    with refusing(NotFound, STUDY):
        hybrid(tiny_chain(tmp_path), [])
