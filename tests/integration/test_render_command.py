"""`refaug score report`: pages made again from the JSON of reports equal those that their commands wrote."""

from __future__ import annotations

import base64
import io
import re
import shutil
from pathlib import Path
from typing import Final

import orjson
import pytest
from integration.conftest import Home
from PIL import Image

RESULTS: Final = Path(__file__).resolve().parents[2] / "docs" / "results"
PLOTTED: Final = ("metrics", "multi-reference", "weights")
WITHOUT_PLOTS: Final = ("adem", "adem-base", "hybrid", "networks", "raters", "recommended")
_PICTURE: Final = re.compile(r'src="data:image/webp;base64,([^"]+)"')


def require_rendered(home: Home, name: str, tmp_path: Path) -> None:
    shutil.copy(RESULTS / f"{name}.json", tmp_path)
    page, markdown = tmp_path / f"{name}.html", tmp_path / f"{name}.md"
    rendered = home("score", "report", tmp_path / f"{name}.json", "--json")
    assert rendered.code == 0, rendered.err
    assert rendered.json == {"written": [str(page), str(markdown)]}
    assert markdown.read_text("utf-8") == (RESULTS / f"{name}.md").read_text("utf-8")
    text = page.read_text("utf-8")
    pictures = [Image.open(io.BytesIO(base64.b64decode(picture))) for picture in _PICTURE.findall(text)]
    assert len(pictures) == text.count("<figure>")
    assert bool(pictures) is (name in PLOTTED)
    assert all(min(picture.size) > 100 for picture in pictures)


def test_every_page_of_the_results_is_rendered_by_these_tests() -> None:
    assert {path.stem for path in RESULTS.glob("*.md")} == {*PLOTTED, *WITHOUT_PLOTS, "README"}


@pytest.mark.parametrize("name", WITHOUT_PLOTS)
def test_the_pages_of_the_results_are_what_their_json_renders(home: Home, tmp_path: Path, name: str) -> None:
    require_rendered(home, name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTTED)
def test_plots_of_the_results_are_drawn_from_their_json(home: Home, tmp_path: Path, name: str) -> None:
    require_rendered(home, name, tmp_path)


def test_the_page_of_scores_is_rendered_from_the_scores_beside_it(home: Home, tmp_path: Path) -> None:
    row = {"id": "a", "utterance": "Tea?", "references": ["yes please"], "replies": {"x": "yes please", "y": "no"}}
    items, report = tmp_path / "items.jsonl", tmp_path / "report"
    items.write_bytes(orjson.dumps(row) + b"\n" + orjson.dumps({**row, "id": "b", "references": ["no thanks"]}) + b"\n")
    assert home("score", items, "--metric", "bleu", "--baseline", "y", "--report", report, "--details").code == 0
    written = (report / "report.html").read_bytes()
    (report / "report.html").unlink()
    assert home("score", "report", report / "scores.json").code == 0
    assert (report / "report.html").read_bytes() == written
    named = tmp_path / "other.html"
    assert home("score", "report", report / "scores.json", "--to", named).code == 0
    assert named.read_bytes() == written


def test_what_has_no_page_is_refused_with_what_helps(home: Home, tmp_path: Path) -> None:
    def refused(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        result = home("score", "report", tmp_path / name)
        assert result.code == 3, result.err
        return str(result.err)

    assert "is not JSON" in refused("cut.json", b'{"name": ')
    assert "an object was expected, a list was found" in refused("list.json", b"[1]")
    assert "not a report that has a page" in refused("other.json", b'{"benchmark": "pages"}')
    assert "of refaug agreement" in refused("meta.json", b'{"baseline": "bleu", "sets": []}')
    stored = orjson.loads((RESULTS / "hybrid.json").read_bytes())
    without_page = {name: part for name, part in stored.items() if name != "page"}
    message = refused("old.json", orjson.dumps(without_page))
    assert "has no 'page'" in message
    assert stored["command"] in message
    broken = {**stored, "page": {"title": "x", "summary": [], "sections": {"0": {"title": "y"}}}}
    assert "is not as refaug agreement reproduce writes it: 'text'" in refused("broken.json", orjson.dumps(broken))
    assert list(tmp_path.glob("*.html")) == []


def test_nothing_is_written_where_one_of_the_files_is_no_report(home: Home, tmp_path: Path) -> None:
    shutil.copy(RESULTS / "hybrid.json", tmp_path)
    assert home("score", "report", tmp_path / "hybrid.json", tmp_path / "none.json").code == 3
    assert (
        home("score", "report", tmp_path / "hybrid.json", tmp_path / "hybrid.json", "--to", tmp_path / "a.html").code
        == 2
    )
    assert home("score", "report", tmp_path / "hybrid.json", "--to", tmp_path / "hybrid.json").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["hybrid.json"]


def test_a_device_without_an_end_is_no_report(home: Home) -> None:
    result = home("score", "report", "/dev/zero")
    assert result.code == 3
    assert "dev/zero" in result.err
