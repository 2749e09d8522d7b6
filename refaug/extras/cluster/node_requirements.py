"""Whether all machines of a cluster see the home and have the software that the work depends on."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from refaug.core.errors import Conflict
from refaug.core.files import make_folder, unique_suffix
from refaug.core.progress import Progress
from refaug.core.version import VERSION
from refaug.extras.cluster.connection import Cluster, ClusterNode


@dataclass(frozen=True, kw_only=True)
class SeenMachine:
    """What a machine has of what the work needs."""

    versions: Mapping[str, str]
    has_folder: bool
    unreadable: Sequence[tuple[Path, str]]  # files that it cannot read, and why


def versions_of(packages: Sequence[str]) -> Mapping[str, str]:
    """Return the versions of refaug, Python and some packages on this machine."""
    versions = {"refaug": VERSION, "python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version_of(package)
        except PackageNotFoundError:
            versions[package] = "missing"
    return versions


def see_machine(mark: Path, packages: Sequence[str], files: Sequence[Path]) -> SeenMachine:
    """Say what this machine has installed, whether it sees a file of the command, and which files it cannot read."""
    unreadable = list[tuple[Path, str]]()
    for file in files:
        try:
            file.open("rb").close()
        except OSError as error:
            unreadable.append((file, error.strerror or str(error)))
    return SeenMachine(versions=versions_of(packages), has_folder=mark.is_file(), unreadable=unreadable)


def require_alike(
    cluster: Cluster, folder: Path, packages: Sequence[str], progress: Progress, *, files: Sequence[Path] = ()
) -> list[tuple[ClusterNode, SeenMachine]]:
    """Refuse a cluster with a machine that does not see a folder of the home, or has other software.

    Return what each machine has; which of the files it cannot read is for the caller to refuse.
    """
    make_folder(folder)
    mark, here = folder / f".seen-{unique_suffix()}.aside", versions_of(packages)
    progress.stage("checking machines", len(cluster.nodes()), "machines")
    machines = list[tuple[ClusterNode, SeenMachine]]()
    mark.touch()
    try:
        seeing = cluster.on_every_node(
            see_machine, look=lambda: progress.advance(0), mark=mark, packages=packages, files=files
        )
        with closing(seeing):
            for node, seen in seeing:
                if not seen.has_folder:
                    raise Conflict(
                        f"the machine {node.address} of the cluster does not see {folder}",
                        remedy="mount REFAUG_HOME under the same path on all machines",
                    )
                require_versions(here, seen.versions, node.address)
                machines.append((node, seen))
                progress.advance(1)
    finally:
        mark.unlink(missing_ok=True)
    return machines


def require_versions(expected: Mapping[str, str], versions: Mapping[str, str], machine: str) -> None:
    """Refuse a machine with other versions of the software than the process has that asks it."""
    differing = [
        f"{name} {versions.get(name, 'missing')} in place of {expected.get(name, 'none')}"
        for name in {**expected, **versions}
        if versions.get(name) != expected.get(name)
    ]
    if differing:
        raise Conflict(
            f"the machine {machine} of the cluster has other versions: {', '.join(differing)}",
            remedy="install the versions of requirements.lock on all machines",
        )
