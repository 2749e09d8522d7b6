"""Metrics as they are asked for: what they want, which files they name, and the b of an index, remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
from engines import home_with_versions
from refusals import refusing

from refaug.core.errors import MissingPart, NotAllowed, Usage
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.metrics.signature import Signature
from refaug.scoring.home.indexes import places_of
from refaug.scoring.metric_setup import baseline
from refaug.scoring.metric_setup.metric_requests import (
    BaselineCache,
    MetricRequest,
    baseline_setter,
    metrics_of,
    resolve_files,
)
from refaug.scoring.metric_setup.model_registry import ModelRegistry
from refaug.scoring.metric_setup.scoring_steps import chosen_metrics


def test_a_language_sets_tokenizers_only_where_no_spaces_separate_words() -> None:
    tokenizers = [
        metric.settings["tok"] for language in ("en", "zh") for metric in metrics_of(["bleu", "rouge-l"], language)
    ]
    assert tokenizers == ["word", "rouge", "char", "char"]


@pytest.mark.parametrize(
    ("text", "models", "flags"),
    [
        ("bleu", [], ""),
        ("upsilon-chrf:b=0.2", [], "weighted"),
        ("upsilon-chrf", [], "weighted base"),
        ("rater:turns=2", [("rater", "model", "")], ""),
        ("rater:model=mine@1", [("rater", "model", "mine@1")], ""),
        ("ruber", [("ruber", "model", ""), ("index", "sample", "")], ""),
        ("ruber:model=u,norm=none", [("ruber", "model", "u")], ""),
        (
            "ruber:unreferenced=rater;turns=3;model=mine,norm=test",
            [("rater", "unreferenced=rater;model", "mine")],
            "",
        ),
        (
            "ruber:model=u,referenced=upsilon-bleu;n=1,sample=chat",
            [("ruber", "model", "u"), ("index", "sample", "chat")],
            "weighs weighted",
        ),
        ("greedy:vectors=./x.txt", [("vectors", "vectors", "./x.txt")], ""),
        ("bertscore", [("encoder", "vectors", "")], ""),
        ("adem:model=a", [("adem", "model", "a")], ""),
        ("judge:refs=weighted", [("judge", "model", "")], "weighted"),
        ("no-such:x", [], ""),
    ],
)
def test_a_specification_tells_which_models_its_metric_needs(
    text: str, models: list[tuple[str, str, str]], flags: str
) -> None:
    request = MetricRequest.of(text)
    assert [(model.parameter.kind.value, model.key, model.spec) for model in request.models] == models
    assert {name for name in ("weighs", "weighted", "base") if getattr(request, name)} == set(flags.split())


def test_file_names_are_resolved_at_any_depth_and_everything_else_stays() -> None:
    asked = (
        "bleu:n=4,tok=sentencepiece:a.model",
        "upsilon-greedy:vectors=w.txt,measure=f",
        "bertscore:vectors=some folder",
        "meteor:wordnet=none",
        "meteor:wordnet=/usr/share/wordnet",
        "meteor:wordnet=w",
        "ruber:referenced=pooled; vectors = w.txt;tok= sentencepiece:a.model,blend=min",
        "chrf",
    )
    assert resolve_files(asked, lambda name: Path("/inbox") / name) == (
        "bleu:n=4,tok=sentencepiece:/inbox/a.model",
        "upsilon-greedy:vectors=w.txt,measure=f",
        "bertscore:vectors=some folder",
        "meteor:wordnet=none",
        "meteor:wordnet=/usr/share/wordnet",
        "meteor:wordnet=/inbox/w",
        "ruber:referenced=pooled;vectors=w.txt;tok=sentencepiece:/inbox/a.model,blend=min",
        "chrf",
    )


def test_a_file_that_may_not_be_named_stops_it() -> None:
    def refuse(name: str) -> Path:
        raise NotAllowed(f"not {name}")

    with refusing(NotAllowed, "etc/passwd"):
        resolve_files(["bleu:tok=sentencepiece:/etc/passwd"], refuse)


def test_the_b_of_an_index_is_looked_up_once_for_each_metric_and_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = places_of(home_with_versions(tmp_path, indexes=2, raters=0)).indexes
    specs = [f"chat@{version}#0123" for version in indexes.versions("chat")]
    asked = ["upsilon-chrf", "upsilon-chrf:char-order=3", "upsilon-bleu", "upsilon-rouge-1:b=0.25"]
    looked_up, index_baseline = list[tuple[str, str]](), baseline.index_baseline

    def counted(metric, *rest):
        looked_up.append((metric.settings["char-order"], rest[1]))
        return index_baseline(metric, *rest)

    bases = BaselineCache(indexes)
    for spec in (*specs, *specs):
        with monkeypatch.context() as counting:
            counting.setattr(baseline, "index_baseline", counted)
            found = metrics_of(asked, None, None, bases.of(spec))
        wanted = metrics_of(asked, None, None, baseline_setter(indexes, spec, Silent()))
        assert [Signature.of(one).full for one in found] == [Signature.of(one).full for one in wanted]
        assert found[3].settings["b"] == "0.25"
    chat = [spec.partition("#")[0] for spec in specs]
    assert looked_up == [("6", chat[0]), ("3", chat[0]), ("6", chat[1]), ("3", chat[1])]


def test_requests_share_metrics_that_name_no_file_and_mistakes_are_named_each_time() -> None:
    (first,), (again,), (other,) = (metrics_of([text], None) for text in ("bleu:n=3", "bleu:n=3", "bleu:n=4"))
    assert first is again
    assert other is not first
    (in_japanese,) = metrics_of(["bleu:n=3"], "ja")
    assert in_japanese.settings["tok"] != first.settings["tok"]
    (open_b,), (open_b_again,) = metrics_of(["upsilon-chrf"], None), metrics_of(["upsilon-chrf"], None)
    assert open_b is not open_b_again
    for _ in range(2):
        with refusing(Usage):
            metrics_of(["bleu:m=3"], None)


def test_scores_by_refaug_1_without_its_encoder_name_the_command_and_another_metric(tmp_path: Path) -> None:
    with refusing(MissingPart) as caught:
        chosen_metrics(["refaug-1"], [], ModelRegistry(Settings(home=tmp_path)))
    assert caught.value.remedy == (
        "refaug index encoder add all-minilm-l6-v2; or name a metric that needs no encoder, such as upsilon-bleu"
    )
