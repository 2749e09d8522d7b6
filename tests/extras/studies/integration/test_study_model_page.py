"""The mixed model in a study's report in a real browser: differences of systems, shares of the variance, or why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browser import Page
from page_tests import Browsed, browsing, looks_right
from studied import add_bots, opened_study, study_home
from study_tasks import protocol, study_task

from refaug.extras.studies.report.numbers import study_report

pytestmark = [pytest.mark.machine, pytest.mark.slow]
FORM = protocol("quality", "fluency", analysis={"draws": 100})


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    folder = tmp_path_factory.mktemp("study-model")
    with browsing(study_home(folder), folder, path="/healthz") as found:
        add_bots(found.server)
        yield found


def report() -> dict[str, Any]:
    """Return the report of nine people who each rate two systems on four items; all are equally fluent."""
    tasks = [
        study_task(
            f"P-{person}",
            (bot,),
            {"quality": 2 + (bot == "zebra") + person % 3 + (item + len(bot) * person) % 4 // 3, "fluency": 4},
            item={"id": f"item-{item}", "unit": f"item-{item}/{bot}"},
        )
        for person in range(9)
        for item in range(4)
        for bot in ("zebra", "quokka")
    ]
    return study_report(tasks, FORM)


def test_the_report_has_the_model_and_says_why_there_is_none(browsed: Browsed) -> None:
    """The server's report, and its count of tasks, are replaced: more people than a test can send through a study."""
    page: Page = browsed.page
    items = [{"id": "r1", "turns": ["Question?"], "replies": {"zebra": "Yes.", "quokka": "No."}}]
    study = opened_study(browsed, "rated", {"kind": "rate-reply", "per_participant": 2}, items=items)
    page.go(f"{browsed.address}/studies#study={study.id}")
    page.until("document.querySelector('[role=tablist]')")
    whole = report()
    page.run(
        f"(() => {{ const real = window.fetch; const report = {json.dumps({'report': whole})};"
        " window.fetch = async (address, ...given) => { const asked = String(address);"
        " if (asked.endsWith('/report')) return Response.json(report);"
        " const answer = await real(address, ...given); if (!asked.endsWith('/progress')) return answer;"
        " const progress = await answer.json(); progress.counts.tasks_done = 72;"
        " return Response.json(progress); }; })(); 1"
    )
    page.run(f"location.hash = '#study={study.id}&tab=report'; 1")
    page.until("document.querySelector('#model table')")
    tables = page.run(
        "[...document.querySelectorAll('#model table')].map((table) =>"
        " [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent)))"
    )
    model = whole["analyses"]["kept"]["ratings"]["quality"]["model"]
    (difference,) = model["differences"]
    people, items_share, rest = (f"{round(100 * row['share'])} %" for row in model["variances"])
    shown = tables[0][1]
    assert shown[:4] == ["zebra − quokka", "quality", f"{difference['difference']:.2f}", f"{difference['se']:.2f}"]
    assert shown[4] == f"{difference['low']:.2f} to {difference['high']:.2f}"
    (odds,) = whole["analyses"]["kept"]["ratings"]["quality"]["ordinal"]["differences"]
    assert tables[2][1][:3] == ["zebra − quokka", "quality", f"{odds['log_odds']:.2f}"]
    assert tables[2][1][3] == f"{odds['low']:.2f} to {odds['high']:.2f}"
    assert tables[2][1][4:] == ["< 0.001", f"{odds['better']:.0%}".replace("%", " %")]
    assert tables[1][1] == ["quality", "72", people, items_share, rest]
    assert "fluency: no model" in page.text("#model")
    looks_right(page)
