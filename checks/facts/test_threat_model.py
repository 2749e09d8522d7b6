"""The threat model names for each boundary the tests that hold it, and they are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "threat-model.md").read_text("utf-8")


def boundaries() -> dict[str, list[str]]:
    """The tests that each row of the table of boundaries names."""
    table = PAGE.split("## The boundaries\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("|")
    ]
    return {row[0].removeprefix("| "): re.findall(r"`(tests/[^`]+)`", row[-1]) for row in rows[2:]}


def test_each_boundary_names_tests_that_exist() -> None:
    named = boundaries()
    assert len(named) >= 18
    assert [boundary for boundary, files in named.items() if not files] == []
    missing = [file for files in named.values() for file in files if not (ROOT / file).is_file()]
    assert missing == []
    for files in named.values():
        for file in files:
            assert "def test_" in (ROOT / file).read_text("utf-8"), file


def test_every_path_on_the_page_is_in_a_boundary() -> None:
    assert sorted(re.findall(r"`(tests/[^`]+)`", PAGE)) == sorted(
        file for files in boundaries().values() for file in files
    )


def test_the_number_of_attacks_is_that_of_the_cases() -> None:
    import attack_cases  # noqa: PLC0415  reads the files of cases

    [stated] = re.findall(r"(\d+) hostile requests, bodies and uploads", PAGE)
    assert int(stated) == sum(map(len, (attack_cases.REQUESTS, attack_cases.BODIES, attack_cases.UPLOADS)))


def test_attacks_stop_no_other_client() -> None:
    measured = json.loads((ROOT / "bench" / "results" / "service_attacks.json").read_bytes())
    ways = [(run["web_processes"], run["keys"]) for run in measured["runs"]]
    assert ways == [(1, False), (1, True), (2, False), (2, True)]
    assert [run["beside_attacks"]["failed"] for run in measured["runs"]] == [0] * 4
    assert [run["attacks_answered_otherwise"] for run in measured["runs"]] == [0] * 4


def test_slow_clients_add_little_memory_and_the_honest_client_is_answered() -> None:
    measured = json.loads((ROOT / "bench" / "results" / "service_slow_clients.json").read_bytes())
    assert measured["memory_added_mib"] <= 200
    beside = measured["honest_beside_slow_clients"]
    assert beside["requests"] == beside["tries_by_status"]["200"] > 0


def test_security_points_to_sections_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    for page, anchor in re.findall(r"\]\((docs/[a-z/-]+\.md)(?:#([a-z-]+))?\)", text):
        headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, (page, anchor)
