"""What every command, route, job, library function and client method answers over a home that was made once.

    python tests/goldens/record.py              compare this code with what was recorded
    python tests/goldens/record.py GROUP…       the same, of some groups
    python tests/goldens/record.py --show ID    print what was recorded of a call
    python tests/goldens/record.py --write ID…  record these calls anew, and print what changes
    python tests/goldens/record.py --write-all  record everything anew, and print what changes

The calls stand in tables below calls/, each with an id that stays; where a flag, a field or a name changes, the table
is edited, and the answer, which is stored under the id, is not. README.md has more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import typer.main
import zstandard

FOLDER: Final = Path(__file__).parent
sys.path[:0] = [path for path in (str(FOLDER.parent), str(FOLDER.parents[1])) if path not in sys.path]

from goldens.commands import command_answers  # noqa: E402
from goldens.comparison import differences  # noqa: E402
from goldens.library import library_answers  # noqa: E402
from goldens.services import client_answers, http_answers, job_answers, walk_answers  # noqa: E402
from goldens.tables import table, table_names  # noqa: E402

ANSWERS: Final = FOLDER / "answers"
SLOW: Final = ".slow"  # the end of the names of groups that `make test-all` compares

Answers = dict[str, Any]


def groups() -> dict[str, Callable[[], Answers]]:
    """Return what makes the calls of each group."""
    faces: dict[str, Callable[[str], Answers]] = {
        "commands": command_answers,
        "http": http_answers,
        "jobs": job_answers,
        "library": library_answers,
        "client": client_answers,
    }
    makers = {f"{face}-{name}": partial(make, name) for face, make in faces.items() for name in table_names(face)}
    return {**makers, "routes": walk_answers}


def ids_of(group: str) -> frozenset[str]:
    """Return the ids of the calls in a group's table."""
    face, _, name = group.partition("-")
    return frozenset(call for call, _ in table(face, name)) if name else frozenset()


def recorded(group: str) -> Answers:
    """Return the recorded answers of a group by the ids of its calls."""
    path = _path(group)
    if not path.exists():
        return {}
    answers: Answers = json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
    return answers


def answered(group: str) -> Answers:
    """Make the calls of a group, and return the answers as they would be recorded."""
    answers: Answers = json.loads(json.dumps(groups()[group]()))
    return answers


def compared(group: str, answers: Mapping[str, Any]) -> list[str]:
    """Return where answers differ from what was recorded: calls by their ids, in whatever order."""
    before = recorded(group)
    lines = [
        f"{name}: {'not called any more' if name in before else 'not recorded'}"
        for name in before.keys() ^ answers.keys()
    ]
    for name in before.keys() & answers.keys():
        lines += differences(before[name], answers[name], name)
    return sorted(lines)


def write(group: str, answers: Mapping[str, Any]) -> None:
    """Record answers, sorted by the ids of their calls."""
    text = json.dumps({name: answers[name] for name in sorted(answers)}, ensure_ascii=False, indent=1)
    ANSWERS.mkdir(exist_ok=True)
    _path(group).write_bytes(zstandard.ZstdCompressor(level=19).compress(text.encode()))


def _path(group: str) -> Path:
    return ANSWERS / f"{group}.json.zst"


def _record(group: str, ids: frozenset[str] | None) -> bool:
    """Record calls of a group anew, all of them for None, and print what changes; whether there were any."""
    before, answers = recorded(group), answered(group)
    changing = answers.keys() | before.keys() if ids is None else ids & (answers.keys() | before.keys())
    lines = [line for line in compared(group, answers) if line.split("/")[0].split(":")[0] in changing]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    after = {**before, **{name: answers[name] for name in changing if name in answers}}
    write(group, {name: answer for name, answer in after.items() if name in answers or name not in changing})
    return bool(changing)


def main() -> int:
    """Compare, show, or record."""
    typer.main.get_command = cache(typer.main.get_command)  # making all commands anew for each takes most of the time
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--show", metavar="ID")
    parser.add_argument("--write", nargs="+", metavar="ID", default=[])
    parser.add_argument("--write-all", action="store_true")
    options = parser.parse_args()
    chosen = options.groups or list(groups())
    if options.show:
        shown = [recorded(group)[options.show] for group in chosen if options.show in recorded(group)]
        sys.stdout.write(json.dumps(shown[0], indent=2, ensure_ascii=False) + "\n" if shown else "not recorded\n")
        return 0 if shown else 1
    if options.write or options.write_all:
        return _write(chosen, None if options.write_all else frozenset(options.write))
    lines = [f"{group}: {line}" for group in chosen for line in compared(group, answered(group))]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


def _write(chosen: list[str], ids: frozenset[str] | None) -> int:
    known = {group: ids_of(group) | recorded(group).keys() for group in chosen}
    missing = set() if ids is None else ids.difference(*known.values())
    if missing:
        sys.stderr.write(f"there is no call {', '.join(sorted(missing))}\n")
        return 2
    for group in chosen:
        if ids is None or ids & known[group]:
            _record(group, ids)
    return 0


if __name__ == "__main__":
    sys.exit(main())
