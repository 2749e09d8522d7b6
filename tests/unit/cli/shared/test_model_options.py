"""Who has to be named for which metrics, as far as specifications tell before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from refaug.cli.shared.model_options import ModelOptions
from refaug.core.errors import Usage
from refaug.core.home import Settings

HOME = Settings(home=Path("absent"))  # of which nothing is read where no fitted judge is named
RUBER, WEIGHTED = "ruber:vectors=x.txt", "ruber:referenced=upsilon-chrf;b=0"


@pytest.mark.parametrize(
    ("asked", "ruber", "sample", "rater", "wants_rater"),
    [
        (["bleu", "nothing-like-this", "delta-bleu:n=4"], None, None, None, False),
        (["rater"], None, None, "r", True),
        ([RUBER], "u", "i", None, False),
        ([f"{RUBER},norm=none"], "u", None, None, False),
        ([f"{RUBER}, norm = test "], "u", None, None, False),
        ([f"{RUBER},range-ref=0..1,range-unref=0..1"], "u", None, None, False),
        ([f"{RUBER},unreferenced=rater;refs=gold"], None, "i", "r", True),
        ([WEIGHTED], "u", "i", None, True),  # to weigh the references of the sample
        ([f"{WEIGHTED},norm=none"], "u", None, None, False),
        (["bleu", WEIGHTED, "rater"], "u", "i", "r", True),
    ],
)  # fmt: skip
def test_it_is_known_whether_a_rater_is_of_use(
    asked: list[str], ruber: str | None, sample: str | None, rater: str | None, wants_rater: bool
) -> None:
    assert ModelOptions(ruber=ruber, sample=sample).require_named(HOME, asked, rater) is wants_rater


def test_the_index_of_references_is_the_sample_unless_another_is() -> None:
    assert ModelOptions(ruber="u").require_named(HOME, [RUBER], None, index="i") is False
    assert ModelOptions(ruber="u", sample="s").require_named(HOME, [RUBER], None, index="i") is False


@pytest.mark.parametrize(
    ("asked", "given", "message", "remedy"),
    [
        (["bleu", "rater"], {}, "rater needs a rater, and none is named", "--rater NAME"),
        ([RUBER], {}, "ruber needs a ruber, and none is named", "--ruber NAME"),
        ([f"{RUBER},unreferenced=rater"], {}, "ruber needs a rater, and none is named", "--rater NAME"),
        ([RUBER], {"ruber": "u"}, "ruber needs an index, to see what its parts give", "--sample NAME"),
        (["bleu"], {"ruber": "u"}, "--ruber without a metric that asks it", "-m ruber"),
        (["bleu"], {"sample": "s"}, "--sample without a metric that looks at it", "-m ruber"),
        ([f"{RUBER},norm=test"], {"ruber": "u", "sample": "s"}, "--sample without a metric", "-m ruber"),
    ],
)  # fmt: skip
def test_who_is_missing_or_idle_is_told_of(asked: list[str], given: dict[str, str], message: str, remedy: str) -> None:
    with pytest.raises(Usage) as refused:
        ModelOptions(**given).require_named(HOME, asked, None)
    assert message in refused.value.message
    assert remedy in refused.value.remedy
