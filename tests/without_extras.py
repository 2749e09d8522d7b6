"""Run the core's tests with all extras removed, and those of each extra alone: `tests/without_extras.py [NAME…]`.

Each run has a copy of the tracked files without the folders of the removed extras and of their tests: every module is
imported, every command shows its help, the service its OpenAPI document, and the tests of units pass. A name is `core`,
an extra, which has those beside it that it imports, or `no-EXTRA`: all but this one and those that import it. `--quick`
leaves the tests out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final = sorted(path.parent.name for path in (ROOT / "refaug/extras").glob("*/__init__.py"))
# a wheel is built of all files; the tests of what is registered, and of checks of the repository, look at all extras
_OF_ALL: Final = ("tests/unit/test_packaging.py", "tests/unit/core/installation", "tests/unit/checks")
UNITS: Final = ["tests/unit", *(f"--ignore={path}" for path in _OF_ALL)]
WITHOUT: Final = "no-"
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


def kept_by(name: str) -> set[str]:
    """Return the extras of a run."""
    if name.startswith(WITHOUT):
        return {extra for extra in EXTRAS if name.removeprefix(WITHOUT) not in beside(extra)}
    return set() if name == "core" else set(beside(name))


def copy_compiled(folder: Path) -> None:
    """Copy what Python has compiled of the modules that are there: it is of the same time of change, so it is read."""
    for module in (*folder.glob("refaug/**/*.py"), *folder.glob("clients/python/src/**/*.py")):
        compiled = Path(cache_from_source(module))
        if compiled.is_relative_to(folder) and (of_root := ROOT / compiled.relative_to(folder)).is_file():
            compiled.parent.mkdir(exist_ok=True)
            shutil.copy2(of_root, compiled)


def passes(name: str, *, quick: bool) -> bool:
    """Whether the core, or an extra, works without the others."""
    kept = kept_by(name)
    gone = [f"{folder}/{extra}/" for folder in ("refaug/extras", "tests/extras") for extra in {*EXTRAS} - kept]
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="refaug-without-") as folder:
        for path in filter(None, tracked.split("\0")):
            if not path.startswith(tuple(gone)) and (ROOT / path).is_file():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, Path(folder) / path, follow_symlinks=False)
        copy_compiled(Path(folder))
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{folder}/clients/python/src"}
        commands = [["-W", "ignore", "-c", PROGRAM]]
        if not quick:
            units = UNITS if name not in EXTRAS else []
            units = [*units, *(f"tests/extras/{extra}/unit" for extra in sorted(kept if units else {name}))]
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
    quick = "--quick" in words
    with ThreadPoolExecutor(2 if quick else 1) as pool:  # tests take two cores, the rest one
        return 0 if all(list(pool.map(partial(passes, quick=quick), names))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
