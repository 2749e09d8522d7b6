"""The repository stays small: no tracked page is over 500 kB, and no other tracked file over 1 MB."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE_LIMIT = 500_000  # bytes
FILE_LIMIT = 1_000_000


def tracked_files() -> list[Path]:
    """Every file under version control that exists in the working tree; links are not followed."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def test_no_tracked_page_is_over_500_kb() -> None:
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked_files()}
    large_pages = {name: size for name, size in sizes.items() if name.endswith((".md", ".html")) and size > PAGE_LIMIT}
    assert large_pages == {}


def test_no_tracked_file_is_over_1_mb() -> None:
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in tracked_files()}
    assert {name: size for name, size in sizes.items() if size > FILE_LIMIT} == {}
