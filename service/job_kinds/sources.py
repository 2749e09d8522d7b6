"""Which files a job may read: those in inbox/, and those under folders that the settings name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from core.errors import NoSource, NotAllowed
from service.asked_metrics import MODEL, with_files
from service.serve_settings import ServeSettings
from service.settings import Settings


def require_source(text: str, home: Settings, serve: ServeSettings) -> Path:
    """The file or folder that a name stands for, without links in it; NotAllowed where it lies elsewhere.

    A relative name is one inside inbox/. What is hidden is ours (posted dialogues wait there), and is not read. A
    folder is looked through, so that no link in it leads out either.
    """
    inbox = home.home / "inbox"
    roots = [root.resolve() for root in (inbox, *map(Path, filter(None, serve.sources.split(":"))))]
    if not text.strip() or "\0" in text:
        raise NotAllowed(f"{text[:80]!r} names no source", remedy=_allowed(serve))
    try:
        found = (inbox / text).resolve()  # an absolute name stays what it is
        root = _require_inside(found, roots, text, serve)  # before anything is told of what is there or not
        is_there = found.exists()
    except (OSError, RuntimeError):  # a loop of links, a name too long, a folder that is not ours to look into
        raise NotAllowed(f"source {text[:200]} cannot be looked at", remedy=_allowed(serve)) from None
    if not is_there:
        raise NoSource(f"source {text}: no such file or folder", remedy="put it into inbox/ first")
    if any(part.startswith(".") for part in found.relative_to(root).parts):
        raise NotAllowed(f"source {text} is hidden", remedy="a name that does not begin with a dot")
    if found.is_dir():
        _require_all_inside(found, roots, text, serve)
    elif not found.is_file():
        raise NotAllowed(f"source {text} is no regular file", remedy="write what it gives into a file first")
    return found


def metrics_within(specifications: Sequence[str], home: Settings, serve: ServeSettings) -> tuple[str, ...]:
    """Metrics with every file that they name where it lies; NotAllowed for one that may not be read."""
    return with_files(specifications, lambda name: require_source(name, home, serve))


def files_in(specifications: Sequence[str], tokenizer: str | None = None) -> list[str]:
    """The files that metrics and a tokenizer name, as they name them."""
    found = list[str]()

    def told(name: str) -> Path:
        found.append(name)
        return Path(name)

    with_files(specifications, told)
    return [*found, *([tokenizer.removeprefix(MODEL)] if tokenizer is not None and tokenizer.startswith(MODEL) else [])]


def tokenizer_within(name: str | None, home: Settings, serve: ServeSettings) -> str | None:
    """The same for a tokenizer, which may be a file too."""
    if name is None or not name.startswith(MODEL):
        return name
    return f"{MODEL}{require_source(name.removeprefix(MODEL), home, serve)}"


def _require_inside(found: Path, roots: Sequence[Path], text: str, serve: ServeSettings) -> Path:
    """The root that a path lies under."""
    for root in roots:
        if found.is_relative_to(root):
            return root
    raise NotAllowed(f"source {text[:200]} is not where sources may lie", remedy=_allowed(serve))


def _require_all_inside(folder: Path, roots: Sequence[Path], text: str, serve: ServeSettings) -> None:
    for parent, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if Path(parent, one).is_symlink())]:
            path = Path(parent, name)
            if name.startswith("."):
                continue
            inner = f"{text}/{path.relative_to(folder)}"
            _require_inside(path.resolve(), roots, inner, serve)
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise NotAllowed(f"source {inner} is no regular file", remedy="take it out of the folder")


def _allowed(serve: ServeSettings) -> str:
    more = " or a folder that REFAUG_SOURCES names" if serve.sources else ""
    return f"sources lie in inbox/{more}: name them from there, such as logs.jsonl"
