"""The base of operations, and kinds of options that several of them have."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from refaug.core.options.declaring import Doc, Ge, Le, Length, Metavar, NoFlag, Pattern, Size
from refaug.core.options.decoding import Options, as_values

_NAME: Final = "[a-z0-9][a-z0-9._-]{0,63}"
Name = Annotated[str, Pattern(re.compile(_NAME), "a name: small letters, digits, `.`, `_` and `-`"), Metavar("NAME")]
Spec = Annotated[
    str,
    Pattern(re.compile(_NAME + r"(@[0-9]{4}-[0-9]{2}-[0-9]{2}\.[1-9][0-9]{0,8})?"), "NAME or NAME@VERSION"),
    Metavar("NAME"),
]
Text = Annotated[str, Length(1, 1_000)]
Share = Annotated[float, Ge(0), Le(1)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
Threads = Annotated[
    int | None,
    Ge(1),
    Le(1_024),
    Doc("Threads; by default one for each core, of a job those of the setting `job_threads` or the free cores."),
]
Memory = Annotated[int, Size(), Doc("Memory to work in, such as 512MiB or 2GiB.")]
MEMORY: Final = 2 << 30
Cluster = Annotated[
    str | None,
    Length(1, 1_000),
    Metavar("ADDRESS"),
]


class Operation(Options):
    """Something that a user can do; a frozen dataclass of its options."""

    operation: ClassVar[str]  # its name, which is the kind of the job that does it
    runs: ClassVar[str] = ""  # module:function of what does the work, imported when it begins
    examples: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # of its options, by what they are for

    @property
    def kind(self) -> str:
        """The kind of job that does it."""
        return self.operation

    def resources(self) -> tuple[str, ...]:
        """Return what it writes: no two jobs that share a resource run at the same time."""
        return ()

    def metrics_named(self) -> list[str]:
        """Return the specifications of metrics that it names."""
        return []

    def bots_named(self) -> list[str]:
        """Return the specifications of bots that it names."""
        return []

    def sources_named(self) -> list[str]:
        """Return the files and folders that it names."""
        return []

    def require_within(self, setting: Callable[[str], float]) -> None:
        """Raise TooLarge where the order alone tells more work than a server's settings allow, by their names."""

    def as_order(self) -> dict[str, object]:
        """Return it as the order of a job, in JSON types."""
        return {"kind": self.operation, **as_values(self)}


@dataclass(frozen=True, kw_only=True)
class OwnedOperation(Operation):
    """An operation whose outcome a job keeps for the key that asked for it."""

    name: Annotated[str, Length(0, 200), NoFlag("a command prints its result"), Doc("A title for people.")] = ""
    owner: Annotated[
        str | None,
        Length(1, 64),
        NoFlag("a command prints its result"),
        Doc("The name of the key that sees the evaluation; the server fills it in."),
    ] = None

    def resources(self) -> tuple[str, ...]:
        """Return a name of all options: the same order does not wait twice."""
        order_hash = hashlib.sha256(json.dumps(self.as_order()).encode()).hexdigest()
        return (f"{self.operation}/{order_hash[:16]}",)
