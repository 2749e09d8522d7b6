"""Jobs that find references or train a rater on a cluster: the results of the same jobs without one."""

from __future__ import annotations

import pytest
from cluster_items import ITEMS, home_with_items
from serving import migrated
from trainings import talk

from refaug.cli.main import main
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.service.jobs import kinds
from refaug.service.server_settings import ServeSettings

FOUND = {"index": "chat", "rater": "tiny", "threads": 1}
MEASURED = {**FOUND, "metrics": ["upsilon-bleu", "bleu"], "draws": 100}
ORDERS = {
    "freeze": {"items": "items.jsonl", "purpose": "test", **FOUND},
    "score": {"items": "items.jsonl", "baseline": "a", **MEASURED},
    "meta": {"data": ["items.jsonl"], **MEASURED},
}


class Names(Silent):
    """Notes the names of stages."""

    def __init__(self):
        self.names = []

    def stage(self, name, total=None, unit=""):
        self.names.append(name)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job-kinds")
    return migrated(home_with_items(folder, folder / "home" / "inbox" / "items.jsonl"))


def result_of(home, address, progress, **order):
    """The result of a job, with the document of its scores."""
    job = f"{order['kind'].replace('-', '')}{'on' in order:d}".ljust(26, "0")
    result = dict(kinds.run(order, home, ServeSettings(clusters=f"head:6379,{address}"), progress, job=job))
    result = {name: value for name, value in result.items() if not name.startswith("seconds")}
    if order["kind"] == "freeze":
        assert result.pop("new") == ("on" not in order)
        assert (result["items"], len(result["problems"])) == (ITEMS - 3, 3)
    elif order["kind"] == "score":
        assert result.pop("evaluation") == job
        result["document"] = (home.home / "evaluations" / job / "scores.json").read_bytes()
    return result


@pytest.mark.parametrize(
    "kind", ["freeze", pytest.param("score", marks=pytest.mark.slow), pytest.param("meta", marks=pytest.mark.faults)]
)
def test_a_job_finds_on_a_cluster_what_it_finds_without(machines, home, kind):
    address, order, progress = machines.address, {"kind": kind, **ORDERS[kind]}, Names()
    alone = result_of(home, address, Silent(), **order)
    assert result_of(home, address, progress, **order, on=address) == alone
    assert "references on 2 machines" in progress.names
    assert not list(home.cache.glob("references-*"))


@pytest.mark.faults
def test_a_job_trains_a_rater_in_two_processes_of_a_cluster(machines, tmp_path):
    home, log = Settings(home=tmp_path / "home", quiet=True), talk(tmp_path / "chat.jsonl", 200)
    assert main(["--home", str(home.home), "--quiet", "log", "ingest", str(log), "--log", "chat"]) == 0
    migrated(home)
    order = {
        "kind": "rater-train",
        "logs": ["chat"],
        "preset": "small",
        "epochs": 1,
        "batch": 40,
        "validation_share": 0.3,
        "embeddings": "random",
        "dropout": 0.2,
    }
    address = machines.address
    alone = result_of(home, address, Silent(), **order, name="alone", accumulate=2)
    spread = result_of(home, address, Silent(), **order, name="spread", on=address, workers=2)
    assert (alone["published"], spread["published"]) == (True, True)
    assert spread["validation_loss"] == pytest.approx(alone["validation_loss"], abs=1e-4)
    assert spread["auc_good_vs_wrong"] == pytest.approx(alone["auc_good_vs_wrong"], abs=1e-3)
