"""Training an adem into a home, the report, and leaving files out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adems import WordEncoder, rated_triples
from refusals import refusing

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.errors import BadInput, Usage
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.core.records import Item
from refaug.extras.judges.adem import (
    LENGTH,
    TRAINED,
    AdemOrder,
    NamedEncoder,
    RatedFile,
    conicity,
    file_groups,
    leave_one_out,
    rated_file,
    train_adem,
)
from refaug.extras.judges.bindings import ReplyAdem
from refaug.extras.judges.metrics.adem import FittedReplies
from refaug.metrics.specification import build
from refaug.rater.adem.scorer.adem import open_adem
from refaug.rater.adem.scorer.rated_triples import Form
from refaug.rater.adem.scorer.settings import ScorerSettings
from refaug.scoring.evaluate import evaluate
from refaug.scoring.items import item_of

SETTINGS = ScorerSettings(components=8, epochs=10)
ENCODER_ID = "f" * 64


def _items(seed: int, contexts: int = 30) -> Iterator[Item]:
    rated = rated_triples(contexts, seed=seed)
    for number in range(contexts):
        rows = range(4 * number, 4 * number + 4)
        fields: dict[str, Any] = {
            "id": f"{seed}-{number}",
            "turns": list(rated.triples[rows[0]].context),
            "references": [rated.triples[rows[0]].reference],
            "replies": {rated.systems[row]: f"{rated.triples[row].reply} {row}" for row in rows},
            "ratings": {rated.systems[row]: [float(rated.ratings[row])] for row in rows},
        }
        yield item_of(fields, fallback_id="")


def _file(seed: int, form: Form = Form.FULL) -> RatedFile:
    return rated_file(f"file-{seed}", list(_items(seed)), form, sha256=str(seed))


def _trained(home: Settings, form: Form = Form.FULL) -> FittedReplies:
    versions = artefact_stores(home)["adem"]
    named = NamedEncoder(encoder=WordEncoder(), id=ENCODER_ID)
    order = AdemOrder(name="chat", settings=replace(SETTINGS, form=form))
    train_adem(home, versions, order, [_file(1, form)], named, Silent())
    with versions.open("chat") as held:
        adem = open_adem(held.folder, WordEncoder(), encoder_id=ENCODER_ID, spec="chat@1#0")
    metric = build(f"adem:form={form.value}")
    assert isinstance(metric, FittedReplies)
    return metric.with_judge(ReplyAdem(adem))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("adems"))


@pytest.fixture(scope="module")
def metric(home: Settings) -> FittedReplies:
    return _trained(home)


def test_the_report_has_balance_spread_conicity_and_both_scorers(home: Settings, metric: FittedReplies) -> None:
    del metric
    with artefact_stores(home)["adem"].open("chat") as held:
        report = json.loads((held.folder / "report.json").read_bytes())
        manifest = json.loads((held.folder / "manifest.json").read_bytes())
    assert report["train_rows"] + report["validation_rows"] == 120
    assert set(report["spread"]["conicity"]) == {"context", "reference", "reply"}
    assert report["validation"]["trained"]["spearman"] is not None
    assert manifest["details"]["files"][0]["sha256"] == "1"
    assert manifest["config"]["scale"] == [1.0, 5.0]


def test_scoring_the_training_file_is_refused_for_every_row_is_dropped(metric: FittedReplies) -> None:
    with refusing(BadInput, "120"):
        evaluate(list(_items(1)), [metric])


def test_training_rows_after_other_turns_are_dropped_where_the_form_has_no_context(tmp_path: Path) -> None:
    moved = [replace(item, turns=(f"Number {number}?",)) for number, item in enumerate(_items(1))]
    with refusing(BadInput, "120"):
        evaluate(moved, [_trained(Settings(home=tmp_path), Form.REFERENCE)])


def test_other_dialogues_are_scored_and_one_training_context_is_dropped(metric: FittedReplies) -> None:
    mixed = [*_items(2, 10), next(_items(1))]
    [scores] = evaluate(mixed, [metric]).scores
    for system in scores.systems.values():
        assert system.unscored == {"trained_on": 1}
        assert [score is None for score in system.each_score()] == [False] * 10 + [True]


def test_the_same_rows_and_settings_give_the_same_adem(tmp_path: Path) -> None:
    ids = set()
    for name in ("first", "second"):
        own = Settings(home=tmp_path / name)
        named = NamedEncoder(encoder=WordEncoder(), id=ENCODER_ID)
        order = AdemOrder(name="chat", settings=SETTINGS)
        ids.add(train_adem(own, artefact_stores(own)["adem"], order, [_file(1)], named, Silent()).id)
    assert len(ids) == 1


def test_a_system_that_is_left_out_must_be_there(tmp_path: Path) -> None:
    home, named = Settings(home=tmp_path), NamedEncoder(encoder=WordEncoder(), id=ENCODER_ID)
    file, versions = _file(1), artefact_stores(home)["adem"]
    [first, *others] = sorted(set(file.rated.systems))
    with refusing(Usage, "nobody") as refused:
        train_adem(home, versions, AdemOrder(name="chat", without_systems=("nobody",)), [file], named, Silent())
    assert refused.value.remedy == f"the systems are: {', '.join([first, *others])}"
    order = AdemOrder(name="chat", settings=SETTINGS, without_systems=(first,))
    report = train_adem(home, versions, order, [file], named, Silent()).report
    assert report["train_rows"] + report["validation_rows"] == sum(system != first for system in file.rated.systems)


def test_each_file_is_scored_by_what_was_fitted_to_the_others() -> None:
    files = [_file(seed) for seed in (1, 2)]
    left_out = list(leave_one_out(files, WordEncoder(), SETTINGS, draws=20, seed=1, progress=Silent()))
    assert [(file.name, file.trained_on) for file in left_out] == [("file-1", ("file-2",)), ("file-2", ("file-1",))]
    for file in left_out:
        trained = file.figures[TRAINED]["spearman"]
        assert trained.value is not None
        assert trained.low is not None
        assert trained.low <= trained.value
        assert file.figures[LENGTH]["spearman"].value is not None


def test_files_that_share_a_context_are_one_group() -> None:
    first, second = _file(1), _file(2)
    assert [len(group) for group in file_groups([first, second])] == [1, 1]
    assert [len(group) for group in file_groups([first, _file(1), second])] == [2, 1]
    with refusing(BadInput):
        list(leave_one_out([first, _file(1)], WordEncoder(), SETTINGS, draws=5, seed=1, progress=Silent()))


def test_a_context_of_several_items_and_files_is_one_whatever_its_golds(tmp_path: Path) -> None:
    alone = [
        replace(item, replies={system: reply}, ratings={system: item.ratings[system]})
        for item in _items(1)
        for system, reply in item.replies.items()
    ]
    others = [replace(item, references=next(_items(number)).references) for number, item in enumerate(alone, 2)]
    files = [rated_file("own", alone, Form.FULL), rated_file("other", others, Form.FULL)]
    assert [len(np.unique(file.rated.contexts)) for file in files] == [30, 30]
    assert len(file_groups(files)) == 1
    home, named = Settings(home=tmp_path), NamedEncoder(encoder=WordEncoder(), id=ENCODER_ID)
    order = AdemOrder(name="chat", settings=SETTINGS)
    report = train_adem(home, artefact_stores(home)["adem"], order, files, named, Silent()).report
    assert (report["contexts"], report["train_rows"]) == (30, 25 * 8)


def test_conicity_is_the_mean_cosine_with_the_mean() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert conicity(vectors) == pytest.approx(np.sqrt(0.5))
    assert conicity(np.array([[1.0, 0.0], [-1.0, 0.0]])) is None
