"""Shells and files of the pages: no script or style inside, nothing from elsewhere, small, and with enough contrast."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_scripts import FILES, PAGE, PAGE_OF_THE_API, SCRIPTS, imported_by, imports_of
from safeguards import has_extra
from serving import client_of, migrated
from starlette.testclient import TestClient

from refaug.core.home import Settings
from refaug.service.scopes import ALLOWED, Scope
from refaug.service.web.pages import static_files as module
from refaug.service.web.pages.shells import render_shell, shells
from refaug.service.web.pages.static_files import StaticFiles, static_files
from refaug.tables.reports import html_page


class Tags(HTMLParser):
    """The tags of a page, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]


ALL = shells()
SHELLS = {path: shell for path, shell in ALL.items() if shell.is_listed}


def entry_of(path: str) -> str:
    """The script of a page."""
    return ALL[path].script


def tags_of(path: str, root: str = "") -> Tags:
    tags = Tags()
    tags.feed(render_shell(path, root))
    return tags


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("pages") / "home"
    home.mkdir()
    with client_of(migrated(Settings(home=home)), ready=False, keys=True) as found:
        yield found


@pytest.mark.parametrize("path", ALL)
def test_a_shell_has_no_script_or_style_inside(path: str) -> None:
    page = tags_of(path)
    for tag, attributes in page.tags:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert tag != "script" or attributes.get("src", "").endswith(f"/{entry_of(path)}")
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("path", ALL)
def test_a_shell_names_only_files_that_exist_below_its_root(path: str) -> None:
    root = f"/refaug/pages/{static_files().digest}/"
    for tag, attributes in tags_of(path, "/refaug").tags:
        target = attributes.get("src") or attributes.get("href")
        if tag in ("script", "link") and target:
            assert target.startswith(root), target
            assert target.removeprefix(root) in FILES
        elif target and not target.startswith("#"):
            assert target.removeprefix("/refaug") in {*SHELLS, "/openapi.json"}


def test_every_label_is_of_a_field_and_every_field_has_a_label() -> None:
    for path in SHELLS:
        page = tags_of(path)
        labels = {attributes["for"] for tag, attributes in page.tags if tag == "label" and "for" in attributes}
        fields = {
            attributes["id"]
            for tag, attributes in page.tags
            if tag in ("input", "select", "textarea") and "id" in attributes
        }
        assert labels == fields, path


def test_pages_are_served_without_a_key_and_with_their_policy(client: TestClient) -> None:
    for path, shell in SHELLS.items():
        answer = client.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert f"<title>{shell.title} · refaug</title>" in answer.text


def test_files_are_kept_for_ever_under_the_digest_of_their_content(client: TestClient) -> None:
    digest = static_files().digest
    for name, text in FILES.items():
        answer = client.get(f"/pages/{digest}/{name}")
        assert answer.content.decode() == text
        assert "immutable" in answer.headers["cache-control"]
    for wrong in (f"/pages/{digest}/none.js", f"/pages/{'0' * 16}/style.css", f"/pages/{digest}/..%2fshells.py"):
        refused = client.get(wrong)
        assert (refused.status_code, refused.json()["code"]) in ((404, "not_found"), (404, "unknown_path")), wrong


def test_digest_changes_with_a_name_and_with_a_byte(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("one")
    (tmp_path / "notes.txt").write_text("left out")
    first = StaticFiles.read(tmp_path)
    assert list(first.files) == ["a.js"]
    (tmp_path / "a.js").write_text("two")
    second = StaticFiles.read(tmp_path)
    (tmp_path / "a.js").rename(tmp_path / "b.js")
    assert len({first.digest, second.digest, StaticFiles.read(tmp_path).digest}) == 3
    assert module.StaticFiles.read(tmp_path) == StaticFiles.read(tmp_path)


def test_every_script_is_imported_by_a_page_and_every_import_is_exported() -> None:
    used = set().union(*(imported_by(entry_of(path)) for path in ALL))
    later = {
        posixpath.normpath(f"{posixpath.dirname(script)}/{name}").lstrip("/")
        for script in used
        for name in re.findall(r'import\("\./([\w-]+\.js)"\)', SCRIPTS[script])
    }
    components = {name for name in SCRIPTS if name.startswith("components/")}  # a test of the gallery shows each
    assert used | later | components == set(SCRIPTS)
    assert later == {"copying.js", "palette.js", "settings.js", "studies/preview.js", "why.js"}  # loaded when asked for
    for name, text in SCRIPTS.items():
        for names, source in imports_of(name):
            for imported in filter(None, (one.strip() for one in names.split(","))):
                name_there, _, name_here = imported.partition(" as ")
                exported = rf"export ((async )?(const|function\*?|class|let) {name_there}\b|{{[^}}]*\b{name_there}\b)"
                assert re.search(exported, SCRIPTS[source]), (name, imported, source)
                uses = re.findall(rf"\b{name_here or name_there}\b", text)
                assert len(uses) > 1, f"{name} does not use {imported}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_no_markup_of_texts_and_asks_no_other_host(name: str) -> None:
    text = SCRIPTS[name]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ):
        assert forbidden not in text
    assert set(re.findall(r"https?://[^\"'` ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "localStorage.setItem" not in text or name in (
        "frame.js",
        "shortcut_list.js",
        "take/session.js",
    )  # scheme, shortcuts, what a participant has not sent yet; never a key


def test_the_first_page_is_below_120_kb_with_nothing_packed() -> None:
    names = {*imported_by("playground.js"), "base.css", "style.css", "playground.css", "icon.svg", "examples.json"}
    assert len(render_shell("/", "")) + sum(len(FILES[name].encode()) for name in names) < PAGE


def sent_bytes(client: TestClient, path: str) -> int:
    """The bytes of a page with its styles and scripts, packed as they are sent."""
    links = {
        target.removeprefix(f"/pages/{static_files().digest}/")
        for tag, attributes in tags_of(path).tags
        if tag == "link" and (target := attributes.get("href"))
    }
    names = links | imported_by(entry_of(path))
    addresses = [path, *(f"/pages/{static_files().digest}/{name}" for name in names)]
    return sum(int(client.get(address).headers["content-length"]) for address in addresses)


@pytest.mark.parametrize("path", ALL)
def test_a_page_is_small_as_it_is_sent(client: TestClient, path: str) -> None:
    document = int(client.get("/openapi.json").headers["content-length"]) if path == "/docs" else 0
    assert 10_000 < sent_bytes(client, path) < PAGE
    assert sent_bytes(client, path) + document < (PAGE_OF_THE_API if document else PAGE)


def test_every_control_that_the_tutorial_names_is_on_a_page() -> None:
    tutorial = (Path(__file__).resolve().parents[4] / "docs" / "pages.md").read_text("utf-8")
    named = re.findall(r"\*\*([^*]+)\*\*", tutorial)
    assert len(named) > 15
    shown = "".join([*(render_shell(path, "") for path in SHELLS), *SCRIPTS.values()])
    assert [name for name in named if name not in shown] == []


# ── contrast ──────────────────────────────────────────────────────────────────────────────────────────────────────────

TOKENS = dict(re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}, #[0-9a-f]{6})\);", FILES["base.css"]))
PAPERS = ("ground", "paper", "raised")
TEXT = [(ink, paper) for paper in PAPERS for ink in ("ink", "faint", "accent", "good", "bad", "warn")]
TEXT += [("on-accent", "accent"), ("ink", "bad-paper"), ("faint", "bad-paper"), ("ink", "mark")]
TEXT += [(state, f"{state}-paper") for state in ("good", "warn", "bad", "running")]
CONTROLS = [(name, paper) for paper in PAPERS for name in ("control", "accent", "good", "bad", "focus")]
CONTROLS += [(f"series-{number}", "paper") for number in range(1, 7)]


def test_reports_of_commands_have_the_colours_of_the_pages() -> None:
    report = Path(html_page.__file__).with_name("style.css").read_text("utf-8")
    colours = dict(re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}, #[0-9a-f]{6})\);", report))
    assert len(colours) >= 8
    assert colours.items() <= TOKENS.items()
    assert set(re.findall(r"var\(--([\w-]+)\)", report)) <= set(colours)


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrasts(first: str, second: str) -> Iterator[float]:
    """By day and by night, as WCAG defines it."""
    for one, other in zip(TOKENS[first].split(", "), TOKENS[second].split(", "), strict=True):
        low, high = sorted((luminance(one), luminance(other)))
        yield (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("ink", "paper"), TEXT)
def test_texts_have_a_contrast_of_four_and_a_half(ink: str, paper: str) -> None:
    assert min(contrasts(ink, paper)) >= 4.5


@pytest.mark.parametrize(("control", "paper"), CONTROLS)
def test_controls_have_a_contrast_of_three(control: str, paper: str) -> None:
    assert min(contrasts(control, paper)) >= 3


def test_every_colour_is_a_token() -> None:
    styles = {name: text for name, text in FILES.items() if name.endswith(".css")}
    rules = re.sub(r":root \{.*?\n\}", "", "".join(styles.values()), count=1, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", rules) == []
    used = set(re.findall(r"var\(--([\w-]+)", "".join(styles.values())))
    defined = {*re.findall(r"--([\w-]+):", FILES["base.css"])}
    of_studies = {"points"} if has_extra("studies") else set()
    assert used - defined == {"share", "from"} | of_studies  # set by scripts


def test_there_are_four_sizes_of_text() -> None:
    sizes = {name for name in re.findall(r"--([\w-]+):", FILES["base.css"]) if name.startswith("size-")}
    assert sizes == {"size-small", "size-body", "size-large", "size-title"}
    for name in ("base.css", "style.css"):
        used = re.findall(r"font-size: ([^;]+);|font: (?:\d+ )?([^/;]+)/", FILES[name])
        assert {one or other for one, other in used} <= {"inherit", *(f"var(--{size})" for size in sizes)}


def test_the_keys_page_offers_every_scope() -> None:
    offered = re.findall(r'name="scope" value="([\w-]+)" data-allowed="([^"]+)"', render_shell("/keys", ""))
    assert offered == [(scope.value, ALLOWED[scope]) for scope in Scope]
