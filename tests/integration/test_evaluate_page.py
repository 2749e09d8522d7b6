"""The page Evaluate in a real browser, against the whole service over a small index: from files to kept notes."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from page_tests import (
    SIZES,
    Browsed,
    accessibility_faults,
    asking_for_keys,
    browsing,
    choose_files,
    hostile_texts,
    looks_right,
    overflow,
    press,
    wait_until_quiet,
)
from recommended_homes import recommended_home
from serving import small_home, small_items

from refaug.core.home import Settings
from refaug.service.database.database import Database
from refaug.service.jobs.worker import run_worker
from refaug.service.keys import KeyStore
from refaug.service.scopes import Scope
from refaug.service.server_settings import ServeSettings

pytestmark = [pytest.mark.machine, pytest.mark.slow]
ROWS = "[...document.querySelectorAll('.grid-space > .grid-row')]"
HOSTILE = hostile_texts(44)


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsed]:
    home = small_home(tmp_path_factory.mktemp("home"))
    with browsing(home.home, tmp_path_factory.mktemp("browser"), path="/evaluate") as found:
        yield found


@pytest.fixture
def page(browsed: Browsed) -> Iterator[Any]:
    """The start of the page with no file chosen, whose console stays empty."""
    page = browsed.page
    page.look(1_280)
    page.go(f"{browsed.address}/healthz")
    page.said.clear()
    page.asked.clear()
    page.go(f"{browsed.address}/evaluate")
    wait_until_quiet(page)
    yield page
    assert page.said == []
    assert [one for one in page.asked if not one.startswith((browsed.address, "data:", "blob:"))] == []


def write_items(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), "utf-8")
    return path


def choose(page: Any, field: str, choice: str) -> None:
    """Set a field as a hand does."""
    node = f"document.querySelector({json.dumps(field)})"
    page.until(f"Boolean({node})")
    page.run(f"{node}.value = {json.dumps(choice)}; {node}.dispatchEvent(new Event('change', {{bubbles: true}}))")


def started(page: Any, *paths: Path, metrics: str = "chrf") -> None:
    """Choose files, ask for cheap metrics too, and start."""
    choose_files(page, *paths)
    page.until("!document.querySelector('#score-form').hidden && document.querySelector('#start-button')")
    page.run(f"document.querySelector('#more-metrics').value = {json.dumps(metrics)}")
    page.run("document.querySelector('#start-button').click()")
    page.until("location.hash.startsWith('#e=')")


def finished(page: Any) -> str:
    """Wait until the tables of the evaluation are there; its id."""
    page.until("document.querySelector('#systems-table') && document.querySelector('#replies-section')")
    return str(page.run("location.hash.slice(3, 29)"))


@pytest.fixture(scope="module")
def evaluation(browsed: Browsed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A finished evaluation of 150 items and two systems by three metrics."""
    return evaluated(browsed, write_items(tmp_path_factory.mktemp("items") / "many.jsonl", small_items(150)))


def evaluated(browsed: Browsed, path: Path, **more: Any) -> dict[str, Any]:
    """Evaluate a file by the API."""
    sent = {"content": path.read_bytes(), "headers": {"Content-Type": "application/octet-stream"}}
    upload = browsed.server.ask("POST", "/v1/uploads", params={"name": path.name}, **sent).json()
    order = {"kind": "score", "items": f"upload:{upload['id']}", "metrics": ["multi-bleu", "chrf", "upsilon-bleu"]}
    order |= {"index": "chat", "rater": "base", "baseline": "a", "draws": 200, **more}
    queued = browsed.server.ask("POST", "/v1/evaluations", json=order).json()
    assert browsed.server.ended(queued["id"])["state"] == "done"
    done: dict[str, Any] = browsed.server.ask("GET", f"/v1/evaluations/{queued['id']}").json()
    return done


def go_to(page: Any, browsed: Browsed, evaluation: str, more: str = "") -> None:
    page.go(f"{browsed.address}/healthz")
    page.go(f"{browsed.address}/evaluate#e={evaluation}{more}")
    finished(page)
    page.until(f"{ROWS}.length > 10 && {ROWS}[0].innerText.includes('d')")
    wait_until_quiet(page)


def shown(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")


# ── from files to a table ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_becomes_a_table_that_another_browser_shows_alike(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    started(page, write_items(tmp_path / "night.jsonl", small_items(40)))
    evaluation = finished(page)
    summary = browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").json()["summary"]
    assert [metric["metric"] for metric in summary["metrics"]] == ["multi-bleu", "upsilon-bleu", "rater", "chrf"]
    table = page.text("#systems-table")
    for metric in summary["metrics"]:
        for row in metric["systems"]:
            low, high = row["interval"]
            assert f"{shown(row['corpus'])}\n[{shown(low)} to {shown(high)}]" in table
    differences = page.text("#differences-table")
    for metric in summary["metrics"]:
        (comparison,) = metric["comparisons"]
        assert (comparison["baseline"], comparison["system"]) == ("a", "b")
        assert f"{abs(comparison['difference']):.3f}" in differences
    assert differences.count("not shown") == sum(
        not metric["comparisons"][0]["is_shown"] for metric in summary["metrics"]
    )
    other = page.other_device(page.run("location.href"))
    finished(other)
    assert other.text("#systems-table") == table
    assert other.text("#differences-table") == differences
    assert other.said == []


def test_columns_are_mapped_by_hand_and_bad_rows_have_their_places(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    items = small_items(8)
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["frage", "gut", "neu", "alt"])
        for place, item in enumerate(items):
            golds = "" if place == 3 else item["references"][0]
            writer.writerow([item["utterance"], golds, item["replies"]["a"], item["replies"]["b"]])
    choose_files(page, tmp_path / "table.csv")
    page.until("document.querySelector('#mapping select')")
    for column, field in (("frage", "utterance"), ("gut", "reference"), ("neu", "reply"), ("alt", "reply")):
        choose(page, f"select[aria-label='What the column {column} holds']", field)
    page.until("document.querySelector('#preview').innerText.includes('2 systems')")
    page.until("document.querySelectorAll('#preview .items > li').length === 5")
    page.said[:] = [one for one in page.said if "422" not in one]  # before the columns were mapped
    assert items[0]["replies"]["a"] in page.text("#preview")
    assert accessibility_faults(page) == []
    page.run("document.querySelector('#start-button').click()")
    evaluation = finished(page)
    summary = browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").json()["summary"]
    assert summary["systems"] == ["neu", "alt"]


def test_bad_rows_are_named_with_file_and_line_and_the_rest_goes_on(page: Any, tmp_path: Path) -> None:
    path = write_items(tmp_path / "some.jsonl", small_items(6))
    lines = path.read_text("utf-8").splitlines()
    lines[2] = '{"id": "broken", "utterance": '
    path.write_text("\n".join(lines) + "\n", "utf-8")
    choose_files(page, path)
    page.until("document.querySelector('#preview').innerText.includes('1 bad row is left out')")
    row = page.run("[...document.querySelectorAll('#preview tbody td')].map((cell) => cell.innerText)")
    assert row[:2] == ["some.jsonl", "3"]
    width = page.run("document.querySelector('#file-input').getBoundingClientRect().width")
    assert width <= 1, "the browser's own control would say that no file is chosen"
    page.run("document.querySelector('#start-button').click()")
    finished(page)
    assert "1 bad row" in page.text("#evaluation-view")
    assert "5 items, 10 replies" in page.text("#evaluation-view")


def test_files_line_by_line_are_put_together(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    items = small_items(12)
    paths = [tmp_path / name for name in ("new.txt", "old.txt", "references.txt")]
    texts = ([item["replies"]["a"] for item in items], [item["replies"]["b"] for item in items])
    for path, lines in zip(paths, (*texts, [item["references"][0] for item in items]), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    choose_files(page, *paths)
    page.until("document.querySelectorAll('#files tbody tr').length === 3")
    page.until("document.querySelector('#preview').innerText.includes('12 items, 24 replies of 2 systems')")
    page.run("document.querySelector('#start-button').click()")
    evaluation = finished(page)
    assert browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").json()["summary"]["systems"] == ["new", "old"]


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20], ids=["empty", "binary"])
def test_a_file_that_cannot_be_read_is_refused_in_words(page: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.csv").write_bytes(content)
    choose_files(page, tmp_path / "odd.csv")
    page.until("document.querySelector('#new-box .notice.bad')?.innerText.includes('What helps')")
    assert page.run("document.querySelector('#score-form').hidden")
    page.said[:] = [one for one in page.said if "Failed to load resource" not in one]


@contextmanager
def half_sent(browsed: Browsed, page: Any, path: Path) -> Iterator[list[int]]:
    """A file that the page has sent a part of, while the web processes stand still; these, by their ids."""
    with path.open("wb") as file:  # far more than the buffers of a connection hold
        file.write(b"".join(json.dumps(item).encode() + b"\n" for item in small_items(20)))
        file.write((b" " * 1_023 + b"\n") * (64 << 10))
    pids = browsed.server.children()["web"]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        choose_files(page, path)
        page.until("document.querySelector('#upload-state progress')?.value > 0")
        assert 0 < page.run("document.querySelector('#upload-state progress').value") < 1
        yield pids
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_sending_shows_how_far_it_is_and_can_be_stopped(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    uploads = browsed.server.home / "uploads"
    before = {path.name for path in uploads.iterdir()} if uploads.exists() else set()
    with half_sent(browsed, page, tmp_path / "long.jsonl"):
        assert page.text("#upload-state").startswith("Sending long.jsonl (")
        assert accessibility_faults(page) == []
        press(page, "Stop sending")
        page.until("document.querySelector('#upload-state').innerText.includes('long.jsonl was not sent')")
    assert page.text("#upload-problem") == ""
    assert page.run("document.querySelector('#score-form').hidden")
    browsed.server.until(lambda: {path.name for path in uploads.iterdir()} <= before, "no part to stay")
    small = write_items(tmp_path / "next.jsonl", small_items(20))
    choose_files(page, small)
    page.until("!document.querySelector('#score-form').hidden")


def test_a_file_is_sent_again_by_itself_when_the_service_died_in_the_middle(
    browsed: Browsed, page: Any, tmp_path: Path
) -> None:
    with half_sent(browsed, page, tmp_path / "killed.jsonl") as pids:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        page.until("document.querySelector('#files tbody tr')?.innerText.includes('killed.jsonl')")
    page.until("!document.querySelector('#score-form').hidden && document.querySelector('#connection').hidden")
    names = [upload["name"] for upload in browsed.server.ask("GET", "/v1/uploads").json()["uploads"]]
    assert names.count("killed.jsonl") == 1
    page.said[:] = [one for one in page.said if "Failed to load resource" not in one]


class Cable:
    """A way to a service that passes all bytes on, and can be cut: then all connections end, new ones at once."""

    def __init__(self, port: int) -> None:
        self.port, self.is_cut, self._open = port, False, list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "http://127.0.0.1:{1}".format(*self._server.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for end in self._open:
            with suppress(OSError):  # closed without lingering, so that a browser in the middle of sending is told
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._server.accept()
                if self.is_cut:
                    end.close()
                    continue
                other = socket.create_connection(("127.0.0.1", self.port))
                self._open += [end, other]
                for ends in ((end, other), (other, end)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_file_is_sent_again_by_itself_after_a_lost_connection(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    cable = Cable(int(browsed.address.rpartition(":")[2]))
    page.go(f"{cable.address}/evaluate")
    wait_until_quiet(page)
    with half_sent(browsed, page, tmp_path / "lost.jsonl"):
        cable.cut()
        page.until(
            "document.querySelector('#upload-state').innerText.includes('lost.jsonl was sent. It is sent again')"
        )
        page.until("document.querySelector('#connection').innerText.includes('is lost')")
    cable.is_cut = False
    page.until("document.querySelector('#files tbody tr')?.innerText.includes('lost.jsonl')")
    page.until("!document.querySelector('#score-form').hidden && document.querySelector('#connection').hidden")
    names = [upload["name"] for upload in browsed.server.ask("GET", "/v1/uploads").json()["uploads"]]
    assert names.count("lost.jsonl") == 1
    cable.close()
    page.said[:] = [one for one in page.said if "Failed to load resource" not in one]
    page.asked[:] = [one for one in page.asked if not one.startswith(cable.address)]


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_replies_are_searched_sorted_and_filtered(browsed: Browsed, page: Any, evaluation: dict[str, Any]) -> None:
    go_to(page, browsed, evaluation["id"])
    assert page.run(f"{ROWS}.length") <= 60
    page.run("document.querySelector('.grid').scrollTop = 1e9")
    page.until(f"{ROWS}.some((row) => row.innerText.includes('d149'))")
    assert page.run(f"{ROWS}.length") <= 60
    path = f"/v1/evaluations/{evaluation['id']}/replies"
    choose(page, "#reply-sort", "score")
    choose(page, "#reply-order", "descending")
    best = browsed.server.ask("GET", path, params={"metric": 0, "sort": "score", "order": "descending"}).json()
    first = f"{ROWS}.find((row) => row.dataset.place === '0')"
    page.until(f"{first}?.children[0].innerText === {json.dumps(best['replies'][0]['item'])}")
    assert page.run(f"{first}.children[3].innerText") == shown(best["replies"][0]["scores"][0])
    word = best["replies"][0]["reply"].split()[0]
    page.type("#reply-search", word)
    total = browsed.server.ask("GET", path, params={"search": word}).json()["total"]
    page.until(f"document.querySelector('#replies-section').innerText.includes('{total} repl')")
    choose(page, "#reply-system", "b")
    total = browsed.server.ask("GET", path, params={"search": word, "system": "b"}).json()["total"]
    page.until(f"document.querySelector('#replies-section').innerText.includes('{total} repl')")
    page.type("#reply-search", "no reply has this")
    page.until("document.querySelector('#replies-section').innerText.includes('No reply is like this')")


def test_metrics_that_disagree_come_first_on_demand(browsed: Browsed, page: Any, evaluation: dict[str, Any]) -> None:
    go_to(page, browsed, evaluation["id"])
    press(page, "Where two metrics disagree most", "#replies-section")
    query = {"metric": 0, "other": 1, "sort": "disagreement", "order": "descending"}
    rows = browsed.server.ask("GET", f"/v1/evaluations/{evaluation['id']}/replies", params=query).json()["replies"]
    first = f"{ROWS}.find((row) => row.dataset.place === '0')"
    page.until(f"{first}?.children[2].innerText.startsWith({json.dumps(rows[0]['reply'][:20])})")
    assert page.run(f"{first}.children[6].innerText") == f"{rows[0]['disagreement']:.2f}"


def test_a_note_is_kept_with_its_reply(browsed: Browsed, page: Any, evaluation: dict[str, Any]) -> None:
    go_to(page, browsed, evaluation["id"], "&reply=3")
    page.until("document.querySelector('#note-text')")
    reply = browsed.server.ask("GET", f"/v1/evaluations/{evaluation['id']}/replies/3").json()
    assert reply["reply"] in page.text("#reply-dialog")
    assert accessibility_faults(page) == []
    page.type("#note-text", HOSTILE[0])
    press(page, "Keep the note", "#reply-dialog")
    page.until("document.querySelector('#note-form').innerText.includes('is kept')")
    press(page, "Close", "#reply-dialog")
    page.until(f"{ROWS}.some((row) => row.innerText.includes('✎'))")
    go_to(page, browsed, evaluation["id"], "&reply=3")
    page.until(f"document.querySelector('#note-text')?.value === {json.dumps(HOSTILE[0])}")
    page.run("document.querySelector('#reply-dialog a').click()")
    page.until("document.querySelector('#turn-0')")
    assert page.run("document.querySelector('#reply-0').value") == reply["reply"]


def test_a_reply_is_reached_and_opened_by_keyboard_alone(
    browsed: Browsed, page: Any, evaluation: dict[str, Any]
) -> None:
    go_to(page, browsed, evaluation["id"])
    for _ in range(80):
        page.press("Tab", 9)
        if page.run("document.activeElement.getAttribute('role') === 'grid'"):
            break
    for key, code in (("End", 35), ("Home", 36), ("ArrowDown", 40), ("ArrowDown", 40), ("Enter", 13)):
        page.press(key, code)
    page.until("document.querySelector('#reply-dialog').open && document.querySelector('#reply-dialog dl')")
    third = browsed.server.ask("GET", f"/v1/evaluations/{evaluation['id']}/replies", params={"offset": 2}).json()
    assert third["replies"][0]["reply"] in page.text("#reply-dialog")
    page.press("Escape", 27)
    page.until("!document.querySelector('#reply-dialog').open")
    assert page.run("document.activeElement.getAttribute('role')") == "grid"


# ── whole evaluations ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_downloads_are_what_the_routes_give(
    browsed: Browsed, page: Any, evaluation: dict[str, Any], tmp_path: Path
) -> None:
    go_to(page, browsed, evaluation["id"])
    page.tell("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for button, kind in (("JSON", "json"), ("CSV", "csv"), ("LaTeX", "latex"), ("HTML report", "html")):
        path = f"/v1/evaluations/{evaluation['id']}/download"
        expected = browsed.server.ask("GET", path, params={"format": kind}).content
        press(page, button)
        browsed.server.until(
            lambda content=expected: any(
                file.read_bytes() == content for file in tmp_path.iterdir() if file.suffix != ".crdownload"
            ),
            f"the download {button}",
        )
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".html", ".json", ".tex"]


def test_agreement_with_ratings_is_shown_with_its_drawings(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    items = small_items(40)
    for place, item in enumerate(items):
        item["ratings"] = {"a": [place % 5 + 1, (place + 1) % 5 + 1], "b": [(place * 3) % 5 + 1, place % 4 + 1]}
    choose_files(page, write_items(tmp_path / "rated.jsonl", items))
    choose(page, "#order-kind", "meta")
    page.run("document.querySelector('#more-metrics').value = 'bleu chrf'")
    page.run("document.querySelectorAll('#score-form [name=metric]').forEach((box) => { box.checked = false; })")
    page.run("document.querySelector('#start-button').click()")
    page.until("document.querySelector('#agreement-table') && document.querySelector('.figure svg')")
    evaluation = page.run("location.hash.slice(3, 29)")
    document = browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").json()["agreement"]
    for row in document["sets"][0]["rows"][:2]:
        assert shown(row["spearman"]["value"]) in page.text("#agreement-table")
    page.run("document.querySelector('.figure details').open = true")
    page.until("document.querySelector('.figure table')")
    assert accessibility_faults(page) == []
    assert overflow(page) == []


def test_the_parts_of_the_recommended_metric_stand_beside_its_scores(browsed: Browsed, tmp_path: Path) -> None:
    recommended_home(tmp_path, is_calibrated=True)
    home = Settings(home=tmp_path / "home")
    with asking_for_keys(browsed, home, "/evaluate", keys=False) as found:
        page = found.page
        choose_files(page, tmp_path / "items.jsonl")
        page.until("!document.querySelector('#score-form').hidden && document.querySelector('#start-button')")
        chosen = "[...document.querySelectorAll('#score-form [name=metric]:checked')].map((one) => one.value)"
        assert page.run(chosen) == ["refaug-1:encoder=tiny", "multi-bleu", "upsilon-bleu"]
        page.run("document.querySelector('#start-button').click()")
        page.until("location.hash.startsWith('#e=')")
        run_worker(home, ServeSettings(), once=True)
        evaluation = finished(page)
        summary = found.client.get(f"/v1/evaluations/{evaluation}").json()["summary"]
        rows = {row["system"]: row for row in summary["metrics"][0]["systems"]}
        table = page.run(
            "[...document.querySelectorAll('.parts-table tbody tr')].map((row) =>"
            " [...row.children].map((cell) => cell.textContent))"
        )
        names = ("gold", "words", "turn", "turns", "retrieved", "copied", "order")
        assert table == [
            [system, shown(row["mean"]), *(shown(row["parts"][name]) for name in names)] for system, row in rows.items()
        ]
        whole = found.client.get(f"/v1/evaluations/{evaluation}/download").json()["scores"][0]["systems"]
        assert {system: row["parts"]["gold"] for system, row in rows.items()} == {
            system: row["parts"]["gold"] for system, row in whole.items()
        }
        page.until("document.querySelectorAll('#metric-charts svg').length === 3")
        heights = page.run(
            "[...document.querySelectorAll('#metric-charts .charts svg')].map((one) => one.clientHeight)"
        )
        assert len(set(heights)) == 1
        assert page.run(
            "document.querySelector('#metric-charts svg').clientWidth >="
            " document.querySelector('#metric-charts').clientWidth - 1"
        )
        looks_right(page)
        assert page.said == []


def test_two_evaluations_stand_side_by_side(
    browsed: Browsed, page: Any, evaluation: dict[str, Any], tmp_path: Path
) -> None:
    items = small_items(150)
    for item in items[::3]:
        item["replies"]["b"] = item["references"][0]
    other = evaluated(browsed, write_items(tmp_path / "today.jsonl", items))
    go_to(page, browsed, evaluation["id"], f"&with={other['id']}")
    page.until("document.querySelector('#beside-table')")
    query = {"with": other["id"], "limit": 20}
    document = browsed.server.ask("GET", f"/v1/evaluations/{evaluation['id']}/comparison", params=query).json()
    text = page.text("#beside-table")
    for pair in document["comparisons"]:
        assert pair["verdict"] in text
        assert f"{abs(pair['tests'][0]['difference']):.3f}" in text
    assert accessibility_faults(page) == []


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_nothing_is_inaccessible_or_too_wide(
    browsed: Browsed, page: Any, evaluation: dict[str, Any], width: int, scheme: str
) -> None:
    page.look(width, scheme=scheme)
    assert accessibility_faults(page) == []
    assert overflow(page) == []
    go_to(page, browsed, evaluation["id"])
    assert accessibility_faults(page) == []
    assert overflow(page) == []


def test_a_removed_evaluation_is_gone_after_a_second_question(browsed: Browsed, page: Any, tmp_path: Path) -> None:
    evaluation = evaluated(browsed, write_items(tmp_path / "short.jsonl", small_items(12)))["id"]
    go_to(page, browsed, evaluation)
    press(page, "Remove", "#evaluation-view")
    press(page, "Remove it", "#question")
    page.until("!document.querySelector('#start-view').hidden")
    assert browsed.server.ask("GET", f"/v1/evaluations/{evaluation}").status_code == 404


def test_a_key_that_may_only_score_does_the_whole_job(browsed: Browsed, tmp_path: Path) -> None:
    home = small_home(tmp_path)
    database = Database.open(home)
    token = str(KeyStore(database).create("lab", [Scope.SCORE])[0])
    database.close()
    with asking_for_keys(browsed, home, "/evaluate") as keyed:
        page = keyed.page
        page.until("document.querySelector('#list').innerText.includes('asks for a key')")
        page.run("document.querySelector('#key-button').click()")
        page.type("#key-input", token)
        page.run("document.querySelector('#key-form button[value=use]').click()")
        page.until("!document.querySelector('#new-box').hidden && document.querySelector('#list .empty')")
        choose_files(page, write_items(tmp_path / "mine.jsonl", small_items(12)))
        page.until("document.querySelector('#start-button')")
        page.run("document.querySelector('#start-button').click()")
        page.until("location.hash.startsWith('#e=')")
        run_worker(home, ServeSettings(), once=True)
        finished(page)
        assert token not in page.run("location.href + document.cookie + JSON.stringify({...localStorage})")
