"""Which models a metric needs, as far as specifications tell before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from refaug.cli.shared.score_options import require_models
from refaug.core.errors import Usage
from refaug.core.home import Settings
from refaug.scoring.metric_setup import metric_requests

HOME = Settings(home=Path("absent"))  # of which nothing is read where no fitted judge is named
RUBER, WEIGHTED = "ruber:model=u,vectors=./x.txt", "ruber:model=u,referenced=upsilon-chrf;b=0"


@pytest.mark.parametrize(
    ("asked", "index", "rater", "asks_rater"),
    [
        (["bleu", "nothing-like-this", "delta-bleu:n=4"], None, None, False),
        (["rater"], None, "r", True),
        (["rater:model=other"], None, None, False),
        ([RUBER], "i", None, False),
        ([f"{RUBER},sample=i"], None, None, False),
        ([f"{RUBER},norm=none"], None, None, False),
        ([f"{RUBER}, norm = test "], None, None, False),
        ([f"{RUBER},range-ref=0..1,range-unref=0..1"], None, None, False),
        (["ruber:unreferenced=rater;refs=gold"], "i", "r", True),
        (["ruber:unreferenced=rater;refs=gold;model=other"], "i", None, False),
        ([WEIGHTED], "i", None, True),  # to weigh the references of the sample
        ([f"{WEIGHTED},norm=none"], None, None, False),
        (["bleu", f"{WEIGHTED},sample=i", "rater"], None, "r", True),
        (["adem:model=a", "judge:model=j", "likelihood:model=v", "judge-fit:f"], None, None, False),
    ],
)  # fmt: skip
def test_it_is_known_whether_the_default_rater_is_of_use(
    asked: list[str], index: str | None, rater: str | None, asks_rater: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_requests, "_fitted_parts", lambda _spec, _home: [])
    assert require_models(HOME, asked, rater=rater, index=index) is asks_rater


@pytest.mark.parametrize(
    ("asked", "message", "remedy"),
    [
        ("rater", "metric `rater` needs a rater: pass rater:model=NAME", "refaug artefacts list rater"),
        ("ruber", "metric `ruber` needs a trained RUBER model: pass ruber:model=NAME", "refaug artefacts list ruber"),
        ("ruber:unreferenced=rater", "metric `ruber` needs a rater: pass ruber:unreferenced=rater;model=NAME",
         "refaug artefacts list rater"),
        (RUBER, "metric `ruber` needs an index, whose log says what its parts give to replies: "
         "pass ruber:sample=NAME", "refaug artefacts list index; or norm=none"),
        ("adem", "metric `adem` needs an ADEM model that was fitted to ratings: pass adem:model=NAME",
         "refaug artefacts list adem"),
        ("judge:refs=gold", "metric `judge` needs a judge behind an endpoint: pass judge:model=NAME",
         "refaug judge list"),
        ("likelihood", "metric `likelihood` needs a trained VHRED model: pass likelihood:model=NAME",
         "refaug artefacts list vhred"),
        ("judge-fit", "metric `judge-fit` needs a fitted judge: pass judge-fit:model=NAME",
         "refaug artefacts list judge-fit"),
        ("upsilon-greedy", "metric `upsilon-greedy` needs word vectors: pass upsilon-greedy:vectors=NAME",
         "refaug artefacts list vectors"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_named_is_an_error_of_one_form(asked: str, message: str, remedy: str) -> None:
    with pytest.raises(Usage) as refused:
        require_models(HOME, ["bleu", asked], rater=None)
    assert (refused.value.message, refused.value.remedy) == (message, remedy)
