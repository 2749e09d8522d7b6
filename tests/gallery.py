"""A page with every component of the pages, served from the files themselves: for pictures, and for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from refaug.service.web.pages.static_files import page_folders

_SCRIPT: Final = Path(__file__).with_name("gallery.js")
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Components</title><link rel="icon" href="static/icon.svg"><link rel="stylesheet" href="static/base.css">
<link rel="stylesheet" href="static/style.css"><link rel="stylesheet" href="gallery.css">
<script type="module" src="gallery.js"></script></head><body><main id="main"></main></body></html>
"""
_STYLE: Final = "".join(
    f".sample-{size} {{ font-size: var(--size-{size}); }}\n" for size in ("title", "large", "body", "small")
)


class _Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the standard library)
        """Say nothing."""


@contextmanager
def served_gallery(folder: Path) -> Iterator[str]:
    """Serve the gallery from a folder; its address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "static").symlink_to(page_folders("static")[0])
    (folder / "gallery.js").symlink_to(_SCRIPT)
    (folder / "gallery.css").write_text(_STYLE)
    (folder / "index.html").write_text(_PAGE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
