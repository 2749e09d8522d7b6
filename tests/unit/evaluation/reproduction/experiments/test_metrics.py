"""`reproduce metrics`: what its tables leave out is left out of every line that could see it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from proofs import tiny_chain, tiny_set

from refaug.evaluation.reproduction.experiments.metrics import _without_near_references
from refaug.evaluation.reproduction.figures.correlations import Line
from refaug.evaluation.reproduction.figures.main_lines import BLEU, BLEU_OURS, OURS, MainLines, _ruber_candidates
from refaug.evaluation.reproduction.figures.selection import select
from refaug.evaluation.reproduction.material.metric_candidates import MetricCandidate, Trial
from refaug.evaluation.reproduction.material.published_method import published_line, published_name
from refaug.evaluation.reproduction.material.reference_kinds import RATED, Drop


def test_no_line_keeps_references_that_are_nearly_the_reply(tmp_path: Path) -> None:
    """The default and the published method are no candidates, and see references all the same."""
    chain = tiny_chain(tmp_path)
    one = tiny_set("first", 15).with_first_gold()
    found = Trial(chain, [one]).pool(one).retrieved
    replies = tuple(  # a retrieved one with its first word said twice: another text of the same words
        f"{found[item][0].text.split()[0]} {found[item][0].text}" for item in one.item.tolist()
    )
    one = replace(one, replies=replies)
    trial = Trial(chain, [one])
    default = MetricCandidate(name="υBLEU, default", why="", family="bleu", metric="upsilon-bleu", kind=RATED)
    candidate = replace(default, name="a candidate")
    plain = Line(name=BLEU, scores={one.name: np.arange(len(one.replies), dtype=np.float64)[None]})
    line = trial.line(candidate, {})
    lines = MainLines(
        lines=(plain, trial.line(default, {}), published_line(chain, [one])),
        published=published_name(chain),
        ours=select([one], [line], OURS),
        bleu=select([one], [line], BLEU_OURS),
        candidates={candidate.name: candidate},
        candidate_of_line={each.name: each for each in (candidate, default)},
        gaps=(),
    )

    again = {each.name: each.scores[one.name] for each in _without_near_references(trial, lines, lines.lines)}

    assert again[BLEU].tolist() == plain.scores[one.name].tolist()
    expected = trial.line(default, {}, drop=Drop.NEAR).scores[one.name]
    np.testing.assert_array_equal(again[default.name], expected)
    assert (expected < trial.line(default, {}).scores[one.name]).any()
    published = published_line(chain, [one], Drop.NEAR).scores[one.name]
    np.testing.assert_array_equal(again[lines.published], published)


def test_blends_with_further_references_are_known_by_their_names() -> None:
    further = [one.name for one in _ruber_candidates() if one.kind == RATED]
    assert further == [f"RUBER + υBLEU, {blend}" for blend in ("min", "max", "arithmetic", "geometric")]
