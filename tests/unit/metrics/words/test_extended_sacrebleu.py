"""Corpus scores of `sacrebleu-raw` and `galley-fork` beside figures of the sacrebleu that knows weights.

The sentences are ours; the figures are what that program gave for them with orders up to 4, tokenizer 13a, mixed case
and no effective order.
"""

from __future__ import annotations

import pytest

from refaug.core.records import Item, Origin, Reference
from refaug.metrics.specification import build
from refaug.scoring.evaluate import evaluate
from refaug.scoring.settings import ScoreSettings

RECIPE = "delta-bleu:n=4,variant={},smooth={},eff=no,tok=13a"
Corpus = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]

MATCHED: Corpus = (
    ("we open at nine every day .", (("we open at nine every day .", 0.8), ("we open at ten every day .", -0.4))),
    (
        "the blue one fits you well .",
        (("the blue one fits you quite well .", 0.5), ("the red one fits you well .", 1.0)),
    ),
)
NO_FOUR: Corpus = (
    ("so so good bye then", (("so so nice bye", 0.5), ("so good then", 0.8), ("bye bye", -0.4))),
    ("i think it is late", (("it is late", 0.9), ("i think so", 0.3), ("is it late", -0.2))),
)
FIGURES = [
    (MATCHED, "none", 0.9037138829405974),
    (MATCHED, "exp", 0.9037138829405974),
    (MATCHED, "floor", 0.9037138829405974),
    (NO_FOUR, "none", 0.0),
    (NO_FOUR, "exp", 0.3215164032396755),
    (NO_FOUR, "floor", 0.2150109775574228),
]


def corpus_score(corpus: Corpus, variant: str, smooth: str) -> float | None:
    items = [
        Item(
            id=f"d{place}",
            references=tuple(
                Reference(text=text, source=Origin.SUPPLIED, weight=weight) for text, weight in references
            ),
            replies={"new": reply},
        )
        for place, (reply, references) in enumerate(corpus)
    ]
    return (
        evaluate(items, [build(RECIPE.format(variant, smooth))], ScoreSettings(draws=0)).scores[0].systems["new"].corpus
    )


@pytest.mark.parametrize(("corpus", "smooth", "figure"), FIGURES)
def test_the_raw_variant_repeats_figures_of_the_program(corpus: Corpus, smooth: str, figure: float) -> None:
    assert corpus_score(corpus, "sacrebleu-raw", smooth) == pytest.approx(figure, abs=1e-12)


def test_the_fork_variant_differs_only_where_smoothing_acts() -> None:
    assert corpus_score(MATCHED, "galley-fork", "exp") == pytest.approx(0.9037138829405974, abs=1e-12)
    assert corpus_score(NO_FOUR, "galley-fork", "exp") == pytest.approx(0.308715095631399, abs=1e-12)


def test_add_k_begins_with_order_2_here_and_with_order_3_there() -> None:
    for corpus, theirs, ours in (
        (MATCHED, 0.9109500724586429, 0.9129130844708746),
        (NO_FOUR, 0.4131949947336263, 0.4258455069268573),
    ):
        assert ours > theirs
        assert corpus_score(corpus, "sacrebleu-raw", "add-k") == pytest.approx(ours, abs=1e-12)
