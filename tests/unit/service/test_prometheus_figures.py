from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from refaug.core.home import Settings
from refaug.service import prometheus_figures
from refaug.service.figures import FigureMemory
from refaug.service.prometheus_figures import AddedFigure, ServiceSnapshot, exposition

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures(text: bytes) -> Figures:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(text.decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def of(found: Figures, name: str, /, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


@pytest.fixture
def now(tmp_path: Path) -> ServiceSnapshot:
    return ServiceSnapshot(home=Settings(home=tmp_path), jobs={}, schedules={})


def growth(before: Figures, after: Figures) -> Figures:
    """What was counted between two looks: the figures of this process are those of all its tests."""
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def test_requests_are_counted_by_route_method_and_status(now: ServiceSnapshot) -> None:
    before = figures(exposition(now))
    prometheus_figures.request("/v1/scores", "POST", 200, 0.02)
    prometheus_figures.request("/v1/scores", "POST", 200, 0.2)
    prometheus_figures.request("/v1/scores", "POST", 503, 0.001)
    prometheus_figures.request("/v1/scores", "BREW", 405, 0.001)
    grown = growth(before, figures(exposition(now)))
    assert of(grown, "refaug_requests_total", route="/v1/scores", method="POST", status="200") == 2
    assert of(grown, "refaug_requests_total", route="/v1/scores", method="POST", status="503") == 1
    assert of(grown, "refaug_requests_total", route="/v1/scores", method="other", status="405") == 1
    assert of(grown, "refaug_request_seconds_sum", route="/v1/scores") == pytest.approx(0.222)
    bucket = {
        bound: of(grown, "refaug_request_seconds_bucket", route="/v1/scores", le=bound) for bound in ("0.01", "0.05")
    }
    assert bucket == {"0.01": 2, "0.05": 3}


def test_a_stage_has_its_seconds_and_the_sizes_of_its_batches(now: ServiceSnapshot) -> None:
    before = figures(exposition(now))
    prometheus_figures.stage("rate", 0.3, 64)
    prometheus_figures.stage("rate", 0.1, 1)
    prometheus_figures.stage("search", 0.1, 5)
    grown = growth(before, figures(exposition(now)))
    assert of(grown, "refaug_stage_seconds_count", stage="rate") == 2
    assert of(grown, "refaug_stage_seconds_sum", stage="rate") == pytest.approx(0.4)
    assert of(grown, "refaug_batch_items_sum", stage="rate") == 65
    assert of(grown, "refaug_batch_items_bucket", stage="search", le="8.0") == 1
    assert of(grown, "refaug_batch_items_bucket", stage="search", le="4.0") is None


def test_caches_and_queue(now: ServiceSnapshot) -> None:
    before = figures(exposition(now))
    prometheus_figures.cache("sets", hits=3, misses=0)
    prometheus_figures.cache("sets", hits=1, misses=2)
    prometheus_figures.queue(17)
    found = figures(exposition(now))
    assert of(growth(before, found), "refaug_cache_hits_total", cache="sets") == 4
    assert of(growth(before, found), "refaug_cache_misses_total", cache="sets") == 2
    assert of(found, "refaug_queue_items") == 17
    prometheus_figures.queue(0)
    assert of(figures(exposition(now)), "refaug_queue_items") == 0


def test_reasons_are_counted_and_do_not_grow_without_end(now: ServiceSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_figures, "_reasons", set())
    before = figures(exposition(now))
    prometheus_figures.unscored({"no_reference": 2, "empty": 1})
    prometheus_figures.unscored({f"made_up_{number}": 1 for number in range(100)})
    prometheus_figures.unscored({"no_reference": 5})
    grown = growth(before, figures(exposition(now)))
    counted = {
        dict(labels)["reason"]: value for (name, labels), value in grown.items() if name == "refaug_unscored_total"
    }
    assert counted["no_reference"] == 7
    assert counted["other"] == 38
    assert sum(counted.values()) == 108
    assert len(counted) == 65


def test_versions_have_their_age_since_they_were_published(tmp_path: Path) -> None:
    published = tmp_path / "indexes" / "chat" / "CURRENT"
    published.parent.mkdir(parents=True)
    published.write_text("2026-11-20.1\n")
    os.utime(published, (1_000_000, 1_000_000))
    now = ServiceSnapshot(
        home=Settings(home=tmp_path),
        versions={"index": {"chat": "2026-11-20.1", "gone": "2026-11-20.2"}, "rater": {"base": "3"}},
        troubles={"index chat": "cannot be read"},
        processes=2,
    )
    found = figures(exposition(now))
    assert of(found, "refaug_version_info", kind="index", name="chat", version="2026-11-20.1") == 1
    assert of(found, "refaug_version_info", kind="rater", name="base", version="3") == 1
    age = of(found, "refaug_version_age_seconds", kind="index", name="chat")
    assert age is not None
    assert age > 1_700_000_000  # since 1970, nearly
    assert of(found, "refaug_version_age_seconds", kind="index", name="gone") is None
    assert of(found, "refaug_artefact_trouble", artefact="index chat") == 1
    assert of(found, "refaug_web_processes") == 2


def test_what_the_database_knows_is_left_out_while_it_is_away(tmp_path: Path) -> None:
    home = Settings(home=tmp_path)
    there = figures(
        exposition(
            ServiceSnapshot(
                home=home, jobs={"queued": 3, "running": 1}, schedules={"nightly": "failed", "weekly": None}
            )
        )
    )
    away = figures(exposition(ServiceSnapshot(home=home)))
    assert of(there, "refaug_database_up") == 1
    assert of(there, "refaug_jobs", state="queued") == 3
    assert of(there, "refaug_schedule_failing", schedule="nightly") == 1
    assert of(there, "refaug_schedule_failing", schedule="weekly") == 0
    assert of(away, "refaug_database_up") == 0
    assert not {name for name, _ in away} & {"refaug_jobs", "refaug_schedule_failing"}


def test_disk_backup_webhook_and_what_extras_add(tmp_path: Path) -> None:
    added = AddedFigure(name="refaug_x", says="X.", labels=("study",), values=[(("s",), 2.0)])
    snapshot = ServiceSnapshot(
        home=Settings(home=tmp_path),
        disk=10,
        disk_free=3,
        backup_age_s=7.5,
        notices=2,
        added=[added],
        counted={"refaug_bot_requests": [(("gpt", "answered"), 4.0)], "refaug_bot_money": [(("gpt", "EUR"), 0.5)]},
    )
    found = figures(exposition(snapshot))
    assert of(found, "refaug_disk_free_bytes") == 3
    assert of(found, "refaug_disk_bytes") == 10
    assert of(found, "refaug_backup_age_seconds") == 7.5
    assert of(found, "refaug_webhook_waiting") == 2
    assert of(found, "refaug_x", study="s") == 2
    assert of(found, "refaug_bot_requests_total", bot="gpt", outcome="answered") == 4
    assert of(found, "refaug_bot_money_total", bot="gpt", currency="EUR") == 0.5
    assert of(figures(exposition(ServiceSnapshot(home=Settings(home=tmp_path)))), "refaug_backup_age_seconds") is None


_COUNTS = """
import sys
from refaug.service import prometheus_figures as observe
observe.request("/x", "GET", 200, 0.1)
observe.queue(int(sys.argv[1]))
print("counted", flush=True)
sys.stdin.read()
"""

_ASKS = """
import sys
from pathlib import Path
from refaug.service import prometheus_figures as observe
from refaug.core.home import Settings
for process in sys.argv[1:]:
    observe.forget_process(int(process))
sys.stdout.buffer.write(observe.exposition(observe.ServiceSnapshot(home=Settings(home=Path(".")))))
"""


def test_figures_of_processes_are_summed_and_a_dead_one_has_none_waiting() -> None:
    with FigureMemory.create(4) as memory:
        environment = {**os.environ, prometheus_figures.MEMORY_VARIABLE: memory.path}

        def asked(*dead: int) -> Figures:
            command = [sys.executable, "-c", _ASKS, *map(str, dead)]
            return figures(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)

        def counting(items: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", _COUNTS, items]
            return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        processes = [counting("5"), counting("7")]
        try:
            assert [process.stdout.readline() for process in processes if process.stdout] == [b"counted\n"] * 2
            found = asked()
            assert of(found, "refaug_requests_total", route="/x", method="GET", status="200") == 2
            assert of(found, "refaug_request_seconds_bucket", route="/x", le="+Inf") == 2
            assert of(found, "refaug_queue_items") == 12
        finally:
            for process in processes:
                process.communicate()
        found = asked(processes[0].pid)
        assert of(found, "refaug_queue_items") == 7
        assert of(found, "refaug_requests_total", route="/x", method="GET", status="200") == 2


def test_a_process_without_the_shared_memory_counts_for_itself() -> None:
    environment = {**os.environ, prometheus_figures.MEMORY_VARIABLE: "/proc/self/fd/no-such"}
    program = _ASKS.replace("for process", 'observe.request("/x", "GET", 200, 0.1)\nfor process')
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    assert of(figures(done.stdout), "refaug_requests_total", route="/x", method="GET", status="200") == 1
    assert b"figures count this process alone" in done.stderr
