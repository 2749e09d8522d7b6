"""The baseline of υ-anything: a mean over pairs of a log that have nothing to do with each other."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from refusals import refusing

from refaug.cli.main import main
from refaug.core.errors import BadInput, Usage
from refaug.core.query_engine import QueryEngine
from refaug.logs.store import StoredLog
from refaug.metrics.base import Level, References
from refaug.metrics.specification import Specification, build
from refaug.scoring.cases import score_replies
from refaug.scoring.metric_setup.baseline import baseline_of

WORDS = ["red", "blue", "open", "closed", "nine", "ten", "please", "thanks"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lines = [
        {"id": f"d{n}", "turns": [f"question {n}", " ".join(WORDS[(n * k) % 8] for k in (1, 3, 5))]} for n in range(40)
    ]
    source = tmp_path / "log.jsonl"
    source.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
    assert (
        main(["--home", str(tmp_path / "home"), "--quiet", "log", "ingest", str(source), "--log", "chat", "--json"])
        == 0
    )
    return tmp_path / "home"


def found(home: Path, specification: str, **settings):
    with QueryEngine(home / "cache" / "test", memory=512 << 20) as engine:
        return baseline_of(
            Specification.parse(specification), StoredLog.open(home / "logs", "chat"), engine, **settings
        )


def test_the_baseline_is_the_mean_over_pairs_of_different_dialogues(home: Path) -> None:
    metric = build("rouge-1")
    one = found(home, "rouge-1", pairs=20, seed=3)
    responses = {" ".join(WORDS[(n * k) % 8] for k in (1, 3, 5)) for n in range(40)}
    every = [(left, right) for left in responses for right in responses if left != right]
    references = [References.unweighted([right]) for _, right in every]
    statistics, _ = score_replies(metric, [left for left, _ in every], references)
    values = metric.values(statistics, Level.REPLY)
    assert values.min() <= one.b <= values.max()
    assert one.pairs == 20
    assert one.source_pairs == 40


def test_same_seed_draws_the_same_pairs_for_plain_and_weighted_forms(home: Path) -> None:
    assert found(home, "rouge-1", pairs=15, seed=3) == found(home, "rouge-1", pairs=15, seed=3)
    assert found(home, "rouge-1", pairs=15, seed=3).b != found(home, "rouge-1", pairs=15, seed=4).b
    assert found(home, "upsilon-rouge-1", pairs=15, seed=3).b == found(home, "rouge-1", pairs=15, seed=3).b


def test_a_metric_without_a_weighted_form_is_refused(home: Path) -> None:
    with refusing(Usage):
        found(home, "cider")


def test_a_log_of_one_dialogue_has_no_random_pairs(tmp_path: Path) -> None:
    source = tmp_path / "one.jsonl"
    source.write_text('{"id": "d", "turns": ["a b", "c d", "e f"]}\n', "utf-8")
    main(["--home", str(tmp_path), "--quiet", "log", "ingest", str(source), "--log", "chat", "--json"])
    with refusing(BadInput):
        found(tmp_path, "rouge-1")


def test_the_command_prints_a_parameter_that_a_specification_takes(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["--home", str(home), "score", "metrics", "baseline", "chrf", "--log", "chat", "--json"]) == 0
    shown = orjson.loads(capsys.readouterr().out)
    assert build(f"upsilon-chrf:{shown['parameter']}").settings["b"] == shown["parameter"].removeprefix("b=")
    assert float(shown["parameter"].removeprefix("b=")) == pytest.approx(shown["b"], abs=1e-7)


def test_the_weighted_form_that_is_advised_keeps_the_other_parameters(home: Path) -> None:
    one = found(home, "chrf:char-order=4,refs=gold", pairs=10)
    assert one.specification == f"upsilon-chrf:char-order=4,{one.parameter}"
    again = found(home, one.specification, pairs=10)
    assert again.b == one.b
    assert again.specification == one.specification
