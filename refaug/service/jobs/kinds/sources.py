"""The files that a job may read: uploads, those in inbox/, and those in folders that the settings name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refaug.core.errors import NoSource, NotAllowed, TooLarge
from refaug.core.home import Settings
from refaug.core.records import Item
from refaug.operations.item_sources import ItemSources
from refaug.scoring.item_files import AlignedFiles, InputFile, ItemFiles
from refaug.scoring.items import BadItem
from refaug.scoring.metric_setup.metric_requests import MODEL, resolve_files
from refaug.service.evaluations.uploads import UploadStore, upload_in
from refaug.service.server_settings import ServeSettings


def require_source(text: str, home: Settings, serve: ServeSettings) -> Path:
    """Return the file or folder with its links resolved; NotAllowed if it lies outside the allowed folders.

    A relative name is one inside inbox/. Hidden files are refused, since posted dialogues wait in them. The content of
    a folder is checked as well, so that no link in it leads outside. `upload:ID` is an uploaded file.
    """
    if (upload_id := upload_in(text)) is not None:
        return UploadStore(home, serve).path(upload_id)
    inbox = home.home / "inbox"
    roots = [root.resolve() for root in (inbox, *map(Path, filter(None, serve.sources.split(":"))))]
    if not text.strip() or "\0" in text:
        raise NotAllowed(f"{text[:80]!r} names no source", remedy=_allowed_sources(serve))
    try:
        path = (inbox / text).resolve()  # an absolute name stays as it is
        root = _require_inside(path, roots, text, serve)  # before the answer could reveal whether the file exists
        is_there = path.exists()
    except (OSError, RuntimeError):  # a loop of links, a name too long, an unreadable folder
        raise NotAllowed(f"source {text[:200]} cannot be looked at", remedy=_allowed_sources(serve)) from None
    if not is_there:
        raise NoSource(f"source {text}: no such file or folder", remedy="put it into inbox/ first")
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        raise NotAllowed(f"source {text} is hidden", remedy="a name that does not begin with a dot")
    if path.is_dir():
        _require_all_inside(path, roots, text, serve)
    elif not path.is_file():
        raise NotAllowed(f"source {text} is not a regular file", remedy="write what it gives into a file first")
    return path


def named_file(text: str, home: Settings, serve: ServeSettings) -> InputFile:
    """Return a source to be read, with the name that messages have: that of the upload, or as given.

    Corrupt for an upload that was altered: it is read once to be compared with its hash.
    """
    if (upload_id := upload_in(text)) is None:
        return InputFile(path=require_source(text, home, serve), name=text)
    uploads = UploadStore(home, serve)
    return InputFile(path=uploads.unaltered_path(upload_id), name=uploads.get(upload_id).name)


def item_files(order: ItemSources, home: Settings, serve: ServeSettings) -> ItemFiles:
    """Return the files that an order names, each of them checked."""
    return ItemFiles(
        items=None if order.items is None else named_file(order.items, home, serve),
        aligned=AlignedFiles(
            replies={system: named_file(text, home, serve) for system, text in order.replies.items()},
            references=[named_file(text, home, serve) for text in order.references],
            weights=[named_file(text, home, serve) for text in order.weights],
            utterances=None if order.utterances is None else named_file(order.utterances, home, serve),
        ),
        table=order.table,
        allow_truncated=order.allow_truncated,
        systems=order.systems,
    )


@dataclass
class ReplyLimit:
    """The replies that a job has read, and how many one evaluation may have."""

    most: int
    replies: int = 0

    def counted(self, files: ItemFiles, on_warning: Callable[[str], None]) -> Iterator[Item | BadItem]:
        """Yield the items of files; TooLarge as soon as there are too many replies."""
        for test_item in files.read(on_warning):
            self.replies += len(test_item.replies) if isinstance(test_item, Item) else 0
            if self.replies > self.most:
                raise TooLarge(
                    f"{', '.join(files.names)}: more than {self.most:,} replies",
                    remedy="evaluate fewer systems or items at once, or raise the setting evaluation_replies: "
                    "a job takes about 6 GiB of memory for 500,000 replies with references from an index, 3 without",
                )
            yield test_item


def resolve_metric_files(specifications: Sequence[str], home: Settings, serve: ServeSettings) -> tuple[str, ...]:
    """Return the metrics with the paths of the files that they name; NotAllowed if one may not be read."""
    return resolve_files(specifications, lambda name: require_source(name, home, serve))


def files_in(specifications: Sequence[str], tokenizer: str | None = None) -> list[str]:
    """Return the files that metrics and a tokenizer name."""
    names = list[str]()

    def collect(name: str) -> Path:
        names.append(name)
        return Path(name)

    resolve_files(specifications, collect)
    return [*names, *([tokenizer.removeprefix(MODEL)] if tokenizer is not None and tokenizer.startswith(MODEL) else [])]


def resolve_tokenizer(name: str | None, home: Settings, serve: ServeSettings) -> str | None:
    """Return the tokenizer with the path of its file, if it is one."""
    if name is None or not name.startswith(MODEL):
        return name
    return f"{MODEL}{require_source(name.removeprefix(MODEL), home, serve)}"


def _require_inside(path: Path, roots: Sequence[Path], text: str, serve: ServeSettings) -> Path:
    """Return the allowed folder that contains a path."""
    for root in roots:
        if path.is_relative_to(root):
            return root
    raise NotAllowed(f"source {text[:200]} is not where sources may lie", remedy=_allowed_sources(serve))


def _require_all_inside(folder: Path, roots: Sequence[Path], text: str, serve: ServeSettings) -> None:
    for parent, folders, names in os.walk(folder):
        for name in [*names, *(one for one in folders if Path(parent, one).is_symlink())]:
            path = Path(parent, name)
            if name.startswith("."):
                continue
            inner = f"{text}/{path.relative_to(folder)}"
            _require_inside(path.resolve(), roots, inner, serve)
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise NotAllowed(f"source {inner} is not a regular file", remedy="take it out of the folder")


def _allowed_sources(serve: ServeSettings) -> str:
    more = " or a folder that REFAUG_SOURCES names" if serve.sources else ""
    return f"sources lie in inbox/{more}: name them from there, such as logs.jsonl"
