"""A call of one of refaug's functions in a process of a cluster, with its errors brought home as they are."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final, NoReturn

from refaug.core import errors
from refaug.core.errors import Corrupt, NoAccess, RefaugError, StorageFull, Unavailable
from refaug.core.files import storage_full

_PACKAGE: Final = "refaug."
_OF_A_MACHINE: Final = (Corrupt, NoAccess, StorageFull, Unavailable)  # another machine may have no such error

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error of refaug's own as plain values."""

    kind: str
    message: str
    remedy: str

    @classmethod
    def of(cls, error: RefaugError) -> Failure:
        """Take an error apart; of a kind that core.errors does not have, the kind is the nearest one that it has."""
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        return cls(kind=kind.__name__, message=error.message, remedy=error.remedy)

    def error(self) -> RefaugError:
        """Return the same error here."""
        kind: type[RefaugError] = getattr(errors, self.kind)
        return kind(self.message, remedy=self.remedy)

    def raise_again(self) -> NoReturn:
        """Raise the same error here."""
        raise self.error()


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
    return brought_home(lambda: getattr(import_module(module), name)(**arguments, **further), name)


def brought_home(work: Callable[[], Any], name: str) -> Any:
    """Return the result of some work; where it raises an error of refaug's own, or of a file, that as a Failure.

    An error that another machine may not have names this one.
    """
    try:
        return work()
    except RefaugError as error:
        failure = Failure.of(error)
        is_of_machine = type(error) in _OF_A_MACHINE
        return replace(failure, message=f"on {machine_name()}: {failure.message}") if is_of_machine else failure
    except OSError as error:
        if (own_error := _error_of_file(error, name)) is None:
            raise
        log.warning("a file cannot be used", exc_info=True)
        return Failure.of(own_error)


def _error_of_file(error: OSError, name: str) -> RefaugError | None:
    """Return an error of the system with the machine and the file; None where no file is named and room is left."""
    where = f"{error.filename or name} on {machine_name()}"
    if (full := storage_full(error, where)) is not None:
        return full
    if error.filename is None:
        return None
    return NoAccess(
        f"{where}: {(error.strerror or 'no access').lower()}",
        remedy="give refaug's user the right to it on that machine, or name another folder there",
    )


# ── What a call on a cluster returned, or why it returned nothing: the one place that reads Ray's errors of calls ─────


class ProcessLost(Exception):
    """The process of a call, or its machine, has died: Ray's error says how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def answer_or_failure(ray: Any, reference: Any, what: str) -> Any:
    """Return what a call returned, an error of refaug's own as a Failure.

    An error that is not refaug's own is raised as RefaugError, which says that `what` failed; the death of its process
    as ProcessLost.
    """
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise RefaugError(
            f"{what} failed on the cluster: {error.cause!r}",
            remedy="the logs of Ray on that machine have more; please report it",
        ) from error
    except ray.exceptions.RayError as error:
        raise ProcessLost(error) from error


def result_of(ray: Any, reference: Any, what: str) -> Any:
    """Return what a call returned; an error of refaug's own is raised here as it was there."""
    answer = answer_or_failure(ray, reference, what)
    if isinstance(answer, Failure):
        answer.raise_again()
    return answer
