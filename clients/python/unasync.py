"""Write `_client.py` out of `_async_client.py`, so that the two kinds of client cannot differ.

python clients/python/unasync.py           # writes it
python clients/python/unasync.py --check   # says whether it is what it should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "refaug_client"
SOURCE, MADE = PACKAGE / "_async_client.py", PACKAGE / "_client.py"
_RULES = (
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b(_?)Async([A-Z]\w*)\b", r"\1\2"),
    (r"\basync_(\w+)\b", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\ba(closing|close)\b", r"\1"),
    (r"\baiter_(\w+)\b", r"iter_\1"),
)
_HEAD = '"""The client of threads: written by unasync.py out of `_async_client.py`, which is the one to change."""'


def made(source: str) -> str:
    """The module for threads."""
    head, _, rest = source.partition("\n")
    assert head.startswith('"""'), "the module begins with its docstring in one line"
    for pattern, instead in _RULES:
        rest = re.sub(pattern, instead, rest)
    return formatted(f"{_HEAD}\n{rest}")


def formatted(text: str) -> str:
    """As ruff would write it: lines have become shorter."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff) if ruff.exists() else "ruff", "format", "--stdin-filename", str(MADE), "-"]
    sort = [command[0], "check", "--fix", "--quiet", "--select", "I", "--stdin-filename", str(MADE), "-"]
    for one in (sort, command):
        text = subprocess.run(one, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text


def main() -> int:
    """Write the module, or say with 1 that it is not up to date."""
    text = made(SOURCE.read_text("utf-8"))
    if "--check" in sys.argv[1:]:
        if MADE.read_text("utf-8") == text:
            return 0
        print(f"{MADE.name} is not what {SOURCE.name} gives: run {Path(__file__).name}", file=sys.stderr)  # noqa: T201
        return 1
    MADE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
