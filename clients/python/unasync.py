"""Write `_client.py` out of `_async_client.py`, and so on, so that the two kinds of client cannot differ.

python clients/python/unasync.py           # writes them
python clients/python/unasync.py --check   # says whether they are what they should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "refaug_client"
SOURCE, MADE = PACKAGE / "_async_client.py", PACKAGE / "_client.py"
ALL = ((SOURCE, MADE), *((PACKAGE / f"_async{name}", PACKAGE / name) for name in ("_jobs.py", "_large.py")))
_RULES = (
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b(_?)Async([A-Z]\w*)\b", r"\1\2"),
    (r"\._async_(\w+)", r"._\1"),
    (r"\basync_(\w+)\b", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\ba(closing|close)\b", r"\1"),
    (r"\baiter_(\w+)\b", r"iter_\1"),
)
_HEADS = {
    "_client.py": "The client of threads",
    "_jobs.py": "Following jobs, in threads",
    "_large.py": "Large inputs, in threads",
}


def made(source: str, into: Path = MADE) -> str:
    """The module for threads."""
    head, _, rest = source.partition("\n")
    assert head.startswith('"""'), "the module begins with its docstring in one line"
    for pattern, instead in _RULES:
        rest = re.sub(pattern, instead, rest)
    said = f"{_HEADS[into.name]}: written by unasync.py out of `_async{into.name}`, which is the one to change."
    return formatted(f'"""{said}"""\n{rest}')


def formatted(text: str) -> str:
    """As ruff would write it: lines have become shorter."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff) if ruff.exists() else "ruff", "format", "--stdin-filename", str(MADE), "-"]
    sort = [command[0], "check", "--fix", "--quiet", "--select", "I", "--stdin-filename", str(MADE), "-"]
    for one in (sort, command):
        text = subprocess.run(one, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text


def main() -> int:
    """Write the modules, or say with 1 which is not up to date."""
    stale = 0
    for source, into in ALL:
        text = made(source.read_text("utf-8"), into)
        if "--check" not in sys.argv[1:]:
            into.write_text(text, "utf-8")
        elif into.read_text("utf-8") != text:
            print(f"{into.name} is not what {source.name} gives: run {Path(__file__).name}", file=sys.stderr)  # noqa: T201
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
