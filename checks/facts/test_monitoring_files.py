"""The dashboard and the alert rules ask for figures and labels that the service exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from refaug.core.home import Settings
from refaug.extras.cluster.search.fleet import ShardState
from refaug.service import prometheus_figures as figures
from refaug.service.jobs.store import JobState

MONITORING = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana.json").read_text("utf-8"))
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))
SOURCE = Path(figures.__file__).read_text("utf-8")
FROM_PROMETHEUS = {"job", "instance", "le"}
WORDS = {
    ("refaug_jobs", "state"): {str(state) for state in JobState},
    ("refaug_shard_replicas", "state"): {"started", "answering"},
    ("refaug_shard_calls_total", "outcome"): {"answered", "hedged", "failed"},
}


def exported() -> dict[str, set[str]]:
    """Return the labels of each time series; gauges are read from the source, since they depend on a running server."""
    series = dict[str, set[str]]()
    for counter in (*figures._COUNTERS, *figures._READ_COUNTERS):
        series[f"{counter.name}_total"] = set(counter.labels)
    for histogram in figures._HISTOGRAMS:
        series |= {f"{histogram.name}_{part}": set(histogram.labels) for part in ("bucket", "sum", "count")}
    series |= {gauge.name: set(gauge.labels) for gauge in figures._GAUGES}
    gauges = re.findall(r'_gauge\(\s*"(refaug_\w+)",\s*"[^"]+",\s*\(([^)]*)\)', SOURCE)
    return series | {name: set(re.findall(r'"(\w+)"', labels)) for name, labels in gauges}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for group in RULES["groups"] for rule in group["rules"])
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(expressions()))
def test_an_expression_names_figures_and_labels_that_are_exported(expression: str) -> None:
    series = exported()
    named = re.findall(r"(refaug_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    for name, matchers in named:
        assert set(re.findall(r"(\w+)=", matchers)) - FROM_PROMETHEUS <= series[name], name
    grouped = {label for labels in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for label in labels.split(", ")}
    assert grouped - FROM_PROMETHEUS <= set().union(*(series[name] for name, _ in named))
    for name, label, word in re.findall(r'(refaug_\w+)\{(state|outcome)="(\w+)"', expression):
        assert word in WORDS[name, label], name
    assert expression.count("(") == expression.count(")")


def test_every_exported_figure_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in exported()}
    assert {family for family in families if family not in shown} == set()


def test_texts_of_alerts_use_labels_of_their_figures() -> None:
    for rule in (rule for group in RULES["groups"] for rule in group["rules"]):
        (name, *_) = re.findall(r"refaug_\w+", rule["expr"])
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= exported()[name], rule["alert"]


def test_the_alert_on_a_silent_shard_is_about_a_figure_of_each_shard(tmp_path: Path) -> None:
    shards = [ShardState(index="chat@1", shard="0", replicas=2, alive=1, machines=1, silent=("10.0.0.2",))]
    shards += [ShardState(index="chat@1", shard="1", replicas=2, alive=0, machines=0, silent=("10.0.0.1",) * 2)]
    snapshot = figures.ServiceSnapshot(
        home=Settings(home=tmp_path), versions={}, troubles={}, processes=1, jobs={}, schedules={}, shards=shards
    )
    shown = figures.exposition(snapshot).decode()
    samples = re.findall(r'^refaug_shard_replicas\{index="([^"]+)",shard="(\d)",state="(\w+)"\} (\S+)$', shown, re.M)
    assert {state for *_, state, _ in samples} == WORDS["refaug_shard_replicas", "state"]
    silent = next(rule for group in RULES["groups"] for rule in group["rules"] if rule["alert"] == "RefaugShardSilent")
    state = re.fullmatch(r'refaug_shard_replicas\{state="(\w+)"\} == 0', silent["expr"])
    assert state is not None
    shown_as_zero = [(index, shard) for index, shard, of, count in samples if of == state[1] and float(count) == 0]
    assert shown_as_zero == [("chat@1", "1")]
    of_machines = re.findall(
        r'^refaug_shard_silent_replicas\{index="chat@1",machine="(\S+)",shard="(\d)"\} (\S+)$', shown, re.M
    )
    assert of_machines == [("10.0.0.2", "0", "1.0"), ("10.0.0.1", "1", "2.0")]


def test_panels_do_not_overlap() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        return {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}

    every = [cells(panel) for panel in DASHBOARD["panels"]]
    assert sum(map(len, every)) == len(set().union(*every))
    assert max(x for panel in every for x, _ in panel) < 24
