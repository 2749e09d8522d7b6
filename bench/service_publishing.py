"""The part `mixed` of bench_service.py: load while indexes and raters are published."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from common import median
from service_load import (
    NAME,
    Direct,
    Load,
    ServiceWorkload,
    ask,
    begin_load,
    end_load,
    items_of,
    load,
    quantile,
    sample_memory,
    scores_body,
    server,
    values_of,
)

NEAR = 1e-5  # how much equal scores may differ


@dataclass(frozen=True)
class Published:
    """A publish: when it was requested, when it was answered, and what it published."""

    kind: str
    version: str
    asked: float
    answered: float
    status: int


def expected_answers(home: Path, items: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[float | None]]:
    """Return the scores of the items by every pair of versions, computed in process: {(index, rater): scores}."""
    answers = {}
    for index_version in ("2026-01-01.1", "2026-01-01.2"):
        for rater_version in ("2026-01-01.1", "2026-01-01.2"):
            direct = Direct(home, f"{NAME}@{index_version}", f"{NAME}@{rater_version}")
            answers[index_version, rater_version] = values_of(direct.answer(items))
            direct.close()
    return answers


def mixed(settings: ServiceWorkload, home: Path) -> dict[str, Any]:
    """Measure single items and batches while an index is published every 20 s and a rater every 45 s."""
    items = items_of(settings.data, 64)
    expected = expected_answers(home, items)
    distinct = sum(
        1 for place in range(len(items)) if len({round(scores[place] or 0.0, 6) for scores in expected.values()}) > 1
    )
    groups = [[place] for place in range(len(items))] + [list(range(at, at + 8)) for at in range(0, 64, 8)]
    bodies = [scores_body([items[place] for place in group]) for group in groups]
    with server(home) as (process, port):
        load(port, "/v1/scores", bodies, connections=4, seconds=5)  # warm
        quiet = load(port, "/v1/scores", bodies, connections=4, seconds=min(30.0, settings.seconds))
        memory, published = list[tuple[float, float]](), list[Published]()
        done = threading.Event()
        threads = [
            threading.Thread(target=sample_memory, args=(process.pid, memory, done)),
            threading.Thread(target=_publish, args=(port, "index", 20.0, published, done)),
            threading.Thread(target=_publish, args=(port, "rater", 45.0, published, done)),
        ]
        running = begin_load(port, "/v1/scores", bodies, connections=4, seconds=settings.seconds, keep_values=True)
        for thread in threads:
            thread.start()
        answered = end_load(running)
        done.set()
        for thread in threads:
            thread.join()
    wrong = _count_wrong(answered, groups, expected, published)
    during = [one["seconds"] for one in answered.sent if _is_during(one, published)]
    without = [one["seconds"] for one in answered.sent if not _is_during(one, published)]
    third = len(memory) // 3
    first, last = (statistics.median(size for _, size in part) for part in (memory[third : 2 * third], memory[-third:]))
    return {
        "seconds": settings.seconds,
        "requests": len(answered.sent),
        "statuses": answered.statuses(),
        "failed": answered.broken + sum(1 for one in answered.sent if one["status"] != 200),
        "wrong": wrong,
        "items_whose_answers_differ": distinct,
        "publishes": len(published),
        "publishes_answered_200": sum(1 for one in published if one.status == 200),
        "publish_s": median([one.answered - one.asked for one in published]),
        "p99_during_s": round(quantile(during, 0.99), 4),
        "p99_without_s": round(quantile(without, 0.99), 4),
        "p99_quiet_s": round(quiet.quantile(0.99), 4),
        "p99_ratio": round(quantile(during, 0.99) / quantile(without, 0.99), 3),
        "p99_over_quiet": round(quantile(during, 0.99) / quiet.quantile(0.99), 3),
        "memory_second_third_mib": round(first / 2**20),
        "memory_last_third_mib": round(last / 2**20),
        "memory_growth": round(last / first, 3),
    }


def _publish(port: int, kind: str, every: float, published: list[Published], done: threading.Event) -> None:
    number = 1
    while not done.wait(every):
        number = 3 - number
        version = f"2026-01-01.{number}"
        asked_at = time.time()
        status, _ = ask("PUT", port, f"/v1/artefacts/{kind}/{NAME}/current", orjson.dumps({"version": version}))
        published.append(Published(kind, version, asked_at, time.time(), status))


def _is_during(sent: dict[str, Any], published: Sequence[Published]) -> bool:
    ended = sent["began"] + sent["seconds"]
    return any(sent["began"] <= one.answered + 1.0 and ended >= one.asked for one in published)


def _count_wrong(
    answered: Load,
    groups: Sequence[Sequence[int]],
    expected_scores: dict[tuple[str, str], list[float | None]],
    published: Sequence[Published],
) -> dict[str, int]:
    """Count answers that the versions they name did not make, and answers of an older version than was promised."""
    wrong = Counter[str]()
    for request in answered.sent:
        if request["status"] != 200:
            continue
        versions = request["answer"]["versions"]
        index, rater = (versions[kind].partition("@")[2].partition("#")[0] for kind in ("index", "rater"))
        expected = [expected_scores[index, rater][place] for place in groups[request["body"]]]
        if any(not _same(a, b) for a, b in zip(request["answer"]["values"], expected, strict=True)):
            wrong["not_made_by_the_version_named"] += 1
        for kind, version in (("index", index), ("rater", rater)):
            before = [p for p in published if p.kind == kind and p.status == 200 and p.answered < request["began"]]
            after = {p.version for p in published if p.kind == kind and p.answered >= request["began"]}
            due = before[-1].version if before else "2026-01-01.1"
            later = any(
                p.kind == kind and p.asked < request["began"] + request["seconds"] and p.answered >= request["began"]
                for p in published
            )
            if version != due and not (later and version in after):
                wrong["older_than_promised"] += 1
    return {
        "not_made_by_the_version_named": wrong["not_made_by_the_version_named"],
        "older_than_promised": wrong["older_than_promised"],
    }


def _same(score: float | None, other_score: float | None) -> bool:
    return score is other_score if score is None or other_score is None else abs(score - other_score) <= NEAR
