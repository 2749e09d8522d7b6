"""A call of one of refaug's functions in a process of a cluster, with its errors brought home as they are."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NoReturn

from refaug.core import errors
from refaug.core.errors import RefaugError
from refaug.core.full_disk import storage_full

_PACKAGE: Final = "refaug."


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error of refaug's own as plain values."""

    kind: str
    message: str
    remedy: str

    @classmethod
    def of(cls, error: RefaugError) -> Failure:
        """Take an error apart."""
        return cls(kind=type(error).__name__, message=error.message, remedy=error.remedy)

    def raise_again(self) -> NoReturn:
        """Raise the same error here."""
        kind = getattr(errors, self.kind, RefaugError)
        raise kind(self.message, remedy=self.remedy)


def machine_name() -> str:
    """Return the name of the machine that this process runs on, for messages."""
    return socket.gethostname()


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a process of the cluster finds a function of refaug."""
    return f"{function.__module__}:{function.__qualname__}"


def call(function: str, arguments: Mapping[str, Any], shared: Any = None) -> Any:
    """Call a function by its name; an error of refaug's own is returned as a Failure.

    A value that is shared by many calls is the argument `shared`.
    """
    module, _, name = function.partition(":")
    assert module.startswith(_PACKAGE), function
    further = {} if shared is None else {"shared": shared}
    try:
        return getattr(import_module(module), name)(**arguments, **further)
    except RefaugError as error:
        return Failure.of(error)
    except OSError as error:
        where = f"{error.filename or name} on {machine_name()}"
        if (full := storage_full(error, where)) is None:
            raise
        return Failure.of(full)
