"""Whether all machines of a cluster see the home and have the software that the work depends on."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from refaug.core.cluster.connection import Cluster
from refaug.core.errors import Conflict
from refaug.core.files import make_folder, unique_suffix
from refaug.core.version import VERSION


@dataclass(frozen=True, kw_only=True)
class SeenMachine:
    """What a machine has of what the work needs."""

    versions: Mapping[str, str]
    has_folder: bool


def versions_of(packages: Sequence[str]) -> Mapping[str, str]:
    """Return the versions of refaug, Python and some packages on this machine."""
    found = {"refaug": VERSION, "python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version_of(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def see_machine(mark: Path, packages: Sequence[str]) -> SeenMachine:
    """Say what this machine has installed, and whether it sees a file that the command has written."""
    return SeenMachine(versions=versions_of(packages), has_folder=mark.is_file())


def require_alike(cluster: Cluster, folder: Path, packages: Sequence[str]) -> None:
    """Refuse a cluster with a machine that does not see a folder of the home, or has other software."""
    make_folder(folder)
    mark, here = folder / f".seen-{unique_suffix()}", versions_of(packages)
    mark.touch()
    try:
        for node, seen in cluster.on_every_node(see_machine, mark=mark, packages=packages):
            if not seen.has_folder:
                raise Conflict(
                    f"the machine {node.address} of the cluster does not see {folder}",
                    remedy="mount REFAUG_HOME under the same path on all machines",
                )
            differing = [
                f"{name} {seen.versions.get(name, 'missing')} in place of {version}"
                for name, version in here.items()
                if seen.versions.get(name) != version
            ]
            if differing:
                raise Conflict(
                    f"the machine {node.address} of the cluster has other versions: {', '.join(differing)}",
                    remedy="install the versions of requirements.lock on all machines",
                )
    finally:
        mark.unlink(missing_ok=True)
