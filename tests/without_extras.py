"""Run the core's tests with all extras removed, and those of each extra alone: `tests/without_extras.py [NAME…]`.

Each run has a copy of the tracked files without the folders of the removed extras and of their tests: every module is
imported, every command shows its help, the service its OpenAPI document, and the tests of units pass. A name is `core`
or an extra, which has those beside it that it imports; `--quick` leaves the tests out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final = sorted(path.parent.name for path in (ROOT / "refaug/extras").glob("*/__init__.py"))
# a wheel is built of all files; the tests of what is registered look at all extras
UNITS: Final = ["tests/unit", "--ignore=tests/unit/test_packaging.py", "--ignore=tests/unit/core/installation"]
PROGRAM: Final = """
import contextlib, importlib, io, pkgutil, sys
from pathlib import Path

import refaug
from refaug.cli.commands import COMMANDS
from refaug.cli.main import main
from refaug.core import installation
from refaug.core.home import Settings
from refaug.operations.catalogue import find_operation, operation_names
from refaug.service.server_settings import ServeSettings
from refaug.service.web.app import create_app

for module in pkgutil.walk_packages(refaug.__path__, "refaug."):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name.startswith("refaug"):  # else a package that is in no environment of tests, or in one of its own
            raise
for path in (*COMMANDS, *installation.registered(installation.COMMANDS)):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        code = main([*path.split(), "--help"])
    if code or "Usage" not in text.getvalue():
        sys.exit(f"{path} --help ends with {code}")
if not all(find_operation(name) for name in operation_names()):
    sys.exit("an operation is missing")
if "/v1/scores" not in (paths := create_app(Settings(home=Path("home")), ServeSettings()).openapi()["paths"]):
    sys.exit(f"no /v1/scores among {len(paths)} routes")
"""


def beside(extra: str) -> Iterator[str]:
    """Yield an extra and those that it imports."""
    sys.path.insert(0, str(ROOT))
    from refaug.core.installation import NEEDS  # noqa: PLC0415

    yield extra
    for needed in NEEDS.get(extra, ()):
        yield from beside(needed)


def passes(name: str, *, quick: bool) -> bool:
    """Whether the core, or an extra, works without the others."""
    kept = set() if name == "core" else set(beside(name))
    gone = [f"{folder}/{extra}/" for folder in ("refaug/extras", "tests/extras") for extra in {*EXTRAS} - kept]
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="refaug-without-") as folder:
        for path in filter(None, tracked.split("\0")):
            if not path.startswith(tuple(gone)) and (ROOT / path).is_file():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, Path(folder) / path, follow_symlinks=False)
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{folder}/clients/python/src"}
        commands = [["-W", "ignore", "-c", PROGRAM]]
        if not quick:
            units = UNITS if name == "core" else [f"tests/extras/{name}/unit"]
            commands += [["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:schemathesis", *units]]
        ended = [
            subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=False) for words in commands
        ]
    sys.stdout.write(f"{name} alone: {'passes' if not any(run.returncode for run in ended) else 'FAILS'}\n")
    sys.stdout.flush()
    return not any(run.returncode for run in ended)


def main(words: list[str]) -> int:
    """Run those that are named, or all."""
    names = [word for word in words if word != "--quick"] or ["core", *EXTRAS]
    failing = [name for name in names if not passes(name, quick="--quick" in words)]
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
