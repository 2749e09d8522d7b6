"""Sources of jobs: inside inbox/ and the configured folders, and nowhere else, however they are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from refusals import refusing

from refaug.core.errors import NoSource, NotAllowed
from refaug.core.home import Settings
from refaug.service.jobs.kinds.sources import require_source
from refaug.service.server_settings import ServeSettings


@pytest.fixture
def place(tmp_path: Path):
    """A home with something in its inbox, a configured folder, and something that is nobody's business."""
    for name in ("home/inbox/deep/log.jsonl", "home/inbox/.posted/chat/secret.jsonl", "shared/a.csv", "private/b.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", "utf-8")
    return tmp_path


def found(place: Path, text: str, sources: str = "") -> Path:
    return require_source(text, Settings(home=place / "home"), ServeSettings(sources=sources))


def test_names_are_of_the_inbox_and_absolute_ones_may_lie_in_it_too(place):
    log = place / "home/inbox/deep/log.jsonl"
    assert found(place, "deep/log.jsonl") == log
    assert found(place, "deep") == log.parent
    assert found(place, str(log)) == log
    assert found(place, "deep/../deep/./log.jsonl") == log


def test_configured_folders_are_allowed_by_their_absolute_names(place):
    both = f"{place}/nothing-here:{place}/shared"
    assert found(place, f"{place}/shared/a.csv", both) == place / "shared/a.csv"
    with pytest.raises(NotAllowed):
        found(place, f"{place}/shared/a.csv")


@pytest.mark.parametrize(
    "text",
    [
        "../private/b.csv",
        "../../private/b.csv",
        "deep/../../../private/b.csv",
        "/etc/passwd",
        "/",
        "..",
        "{place}/private/b.csv",
        "{place}/private/no-such-file",
        "{place}/home/inbox-of-another/x",
        "{place}/shared-not/x",
        "~/x/../../../etc/passwd",
    ],
)
def test_anything_elsewhere_is_refused_without_telling_whether_it_is_there(place, text):
    with refusing(NotAllowed) as caught:
        found(place, text.format(place=place), f"{place}/shared")
    assert caught.value.status == 403
    assert "inbox/" in caught.value.remedy
    assert str(place) not in caught.value.remedy


@pytest.mark.parametrize("text", ["", "  ", "a\0b"])
def test_what_is_no_name_is_refused(place, text):
    with refusing(NotAllowed):
        found(place, text)


def test_links_that_lead_out_are_refused_and_those_inside_are_followed(place):
    inbox = place / "home/inbox"
    (inbox / "out.csv").symlink_to(place / "private/b.csv")
    (inbox / "out").symlink_to(place / "private")
    (inbox / "in.jsonl").symlink_to(inbox / "deep/log.jsonl")
    (inbox / "shared").symlink_to(place / "shared")
    for text in ("out.csv", "out", "out/b.csv", "shared/a.csv"):
        with pytest.raises(NotAllowed):
            found(place, text)
    assert found(place, "in.jsonl") == inbox / "deep/log.jsonl"
    assert found(place, "shared/a.csv", f"{place}/shared") == place / "shared/a.csv"


@pytest.mark.parametrize("link", ["a.csv", "further"])
def test_folder_with_a_link_that_leads_out_is_refused_by_the_links_name(place, link):
    target = place / ("private/b.csv" if link == "a.csv" else "private")
    (place / "home/inbox/deep/inner").mkdir()
    (place / "home/inbox/deep/inner" / link).symlink_to(target)
    with refusing(NotAllowed, "deep/inner", link):
        found(place, "deep")


def test_loops_pipes_and_devices_are_refused(place):
    inbox = place / "home/inbox"
    (inbox / "loop").symlink_to(inbox / "loop")
    os.mkfifo(inbox / "pipe")
    (inbox / "null").symlink_to("/dev/null")
    with refusing(NotAllowed):
        found(place, "loop")
    with refusing(NotAllowed):
        found(place, "pipe")
    with refusing(NotAllowed):
        found(place, "null")
    (inbox / "folder").mkdir()
    os.mkfifo(inbox / "folder/pipe")
    with refusing(NotAllowed, "folder/pipe"):
        found(place, "folder")


def test_what_is_hidden_is_ours(place):
    for text in (".posted/chat/secret.jsonl", ".posted", "deep/../.posted/chat"):
        with refusing(NotAllowed):
            found(place, text)


def test_what_is_not_there_is_named(place):
    with refusing(NoSource, "nothing.csv") as caught:
        found(place, "nothing.csv")
    assert caught.value.remedy == "put it into inbox/ first"
    with pytest.raises(NoSource):
        found(place, "deep/log.jsonl/further")
    with refusing(NotAllowed):
        found(place, "x" * 5_000)
