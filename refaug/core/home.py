"""The home and the folders in it, for every command; `service.server_settings` has the settings of a server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from refaug.core.errors import Conflict

RESTORING: Final = ".restoring"  # a folder of a home that a restore has not finished


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings from the environment and from options before the command."""

    home: Path = Path("refaug-data")
    quiet: bool = False

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read REFAUG_HOME; an unset variable keeps its default."""
        values = os.environ if environment is None else environment
        return cls(home=Path(values["REFAUG_HOME"])) if values.get("REFAUG_HOME") else cls()

    def require_whole(self) -> None:
        """Raise Conflict while a restore of this home is not finished."""
        if (self.home / RESTORING).exists():
            raise Conflict(
                f"{self.home} is half restored", remedy="run the same refaug admin restore again: it goes on"
            )

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.home / "logs"

    @property
    def reference_sets(self) -> Path:
        """The folder of the frozen reference sets."""
        return self.home / "reference-sets"

    @property
    def datasets(self) -> Path:
        """The folder of published sets that were added, as JSON lines."""
        return self.home / "datasets"

    @property
    def judges(self) -> Path:
        """The folder of the files that describe judges behind an endpoint."""
        return self.home / "judges"

    @property
    def judgements(self) -> Path:
        """The folder of the answers that judges gave, which cannot be made again."""
        return self.home / "judgements"

    @property
    def cache(self) -> Path:
        """The folder of files that can be made again."""
        return self.home / "cache"


# Name → its effect and its default; docs/reference/settings.md is generated from this and from the fields of
# ServeSettings.
VARIABLES: Mapping[str, tuple[str, str]] = {
    "REFAUG_HOME": (
        "the folder that holds everything refaug owns, on a local disk; made when it is not there; "
        "a relative one counts from the folder where the command is run",
        "./refaug-data",
    ),
    "REFAUG_ENCODINGS": (
        "how much the kept vectors of encoders may take on disk, those of tokens at most half of it: 512MiB, 4GiB …; "
        "beyond it nothing more is kept, and with 0 nothing is",
        "4GiB",
    ),
}

# The variables of a store of artefacts: name → its effect and its default.
STORE_VARIABLES: Mapping[str, tuple[str, str]] = {
    "REFAUG_STORE": (
        "the store of `refaug artefacts`: a folder, `s3://BUCKET/PREFIX` or `hf://OWNER/NAME`; its credentials are the "
        "`AWS_…` variables, `HF_TOKEN`, or what else the library of the store reads",
        "",
    ),
    "REFAUG_STORE_ENDPOINT": ("the address of an object store that is not Amazon's: `http(s)://HOST[:PORT]`", ""),
    "REFAUG_STORE_TIMEOUT_S": ("seconds that a store may take for one answer, up to 3,600", "60"),
}

# The variables of the machines of a cluster: name → its effect and its default.
CLUSTER_VARIABLES: Mapping[str, tuple[str, str]] = {
    "REFAUG_NODE_CACHE": (
        "the folder of a machine's copies of shards, which hold texts: on a disk with room for them, of the user that "
        "runs Ray there, no link; what is made in it has mode 0700",
        "refaug-shards-UID in the folder for temporary files",
    ),
}
