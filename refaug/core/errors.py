"""Every error raised on purpose, as one tree.

    RefaugError                 an error of refaug, unless a subclass says otherwise
    ├── Usage                   the command or request itself makes no sense
    ├── BadInput                the input cannot be used as it is
    │   ├── NoSource            nothing readable where a source was named
    │   ├── UnknownFormat       a source in none of the formats we read
    │   ├── MissingField        a column or key that the mapping needs is not there
    │   ├── DamagedSource       a source that ends early or is not what its name says
    │   ├── TooManyBadRows      more bad rows than the caller allows
    │   ├── SourceChanged       a source was written to while it was read
    │   ├── TrainedOn           a judge was asked about nothing but its own training rows
    │   └── NoGold              items without a gold, where scores or ratings need one
    ├── NotFound                no artefact of that name
    ├── Corrupt                 an artefact whose files are not those its manifest names
    ├── Conflict                the request contradicts what is already there
    │   ├── Locked              another process is working on the same thing
    │   └── Withdrawn           a reference set that was withdrawn from use
    ├── TooLarge                more than the settings allow at once
    ├── NoKey                   no key was given, or an unknown one
    ├── NotAllowed              the caller's key does not permit this
    ├── Later                   not now: the same request may succeed after a while
    │   ├── TooMany             more requests than a key is allowed in this time
    │   ├── Overloaded          more work is waiting than can be done in time
    │   ├── Expired             the time that the caller gave ran out before the work was done
    │   └── Unavailable         a dependency, such as the database, cannot be reached now
    │       └── DamagedDatabase the file of the database is not as it was written
    ├── Interrupted             stopped from outside; the same command continues where it stopped
    ├── CheckFailed             built, but not published because a check failed
    ├── StorageFull             the disk, or a quota on it, is full
    ├── NoAccess                a file or folder of refaug cannot be read or written
    └── MissingPart             an optional library, dictionary or program is not installed

The command line takes `exit_code`, HTTP takes `status`, and both print `code`, which never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RefaugError(Exception):
    """Something went wrong that we did not foresee: please report it."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    status: ClassVar[int] = 500

    def __init__(self, message: str = "", *, remedy: str = "") -> None:
        self.message = message or type(self).summary()
        self.remedy = remedy
        super().__init__(f"{self.message} ({remedy})" if remedy else self.message)

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the class's docstring, which says what this kind of error means."""
        return (cls.__doc__ or cls.code).strip().splitlines()[0]


class Usage(RefaugError):
    """The command or request makes no sense as it stands."""

    code, exit_code, status = "usage", 2, 400

    def __init__(self, message: str = "", *, remedy: str = "", field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message, remedy=remedy)
        self.field = field  # the option that it is about, as bodies spell it; each face spells it in its own way
        self.without_field = message


class BadInput(RefaugError):
    """What was handed in cannot be used as it is."""

    code, exit_code, status = "bad_input", 3, 422


class NoSource(BadInput):
    """Nothing readable where a source was named."""

    code = "no_source"


class UnknownFormat(BadInput):
    """A source in none of the formats that are read."""

    code = "unknown_format"


class MissingField(BadInput):
    """A column or key that the mapping needs is not there."""

    code = "missing_field"


class DamagedSource(BadInput):
    """A source that ends early, or is not what its name says."""

    code = "damaged_source"


class TooManyBadRows(BadInput):
    """More bad rows than the caller allows."""

    code = "too_many_bad_rows"


class SourceChanged(BadInput):
    """A source was written to while it was being read."""

    code = "source_changed"


class NoGold(BadInput):
    """Items without a gold, where scores or ratings need one."""

    code = "no_gold"

    def __init__(self, message: str = "", *, remedy: str = "", items: Sequence[str] = ()) -> None:
        super().__init__(message, remedy=remedy)
        self.items = tuple(items)  # their ids


class TrainedOn(BadInput):
    """A judge was asked about nothing but the rows that it was fitted to."""

    code = "trained_on"


class NotFound(RefaugError):
    """No artefact of that name."""

    code, exit_code, status = "not_found", 3, 404


class Corrupt(RefaugError):
    """An artefact's files are not those that its manifest names."""

    code, exit_code, status = "corrupt", 3, 500


class Conflict(RefaugError):
    """The request contradicts what is already there."""

    code, exit_code, status = "conflict", 4, 409


class Locked(Conflict):
    """Another process is working on the same thing."""

    code = "locked"


class Withdrawn(Conflict):
    """A reference set that was withdrawn from use."""

    code, status = "withdrawn", 410


class TooLarge(RefaugError):
    """More than the settings allow at once."""

    code, exit_code, status = "too_large", 3, 413


class NoKey(RefaugError):
    """No key was given, or none that is known."""

    code, exit_code, status = "no_key", 3, 401


class NotAllowed(RefaugError):
    """The caller may not do this."""

    code, exit_code, status = "not_allowed", 3, 403

    def __init__(self, message: str = "", *, remedy: str = "", scope: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.scope = scope  # that the key lacks, where another key would do


class Later(RefaugError):
    """Not now: the same request may go through after `retry_after_s`."""

    code, exit_code, status = "later", 4, 503

    def __init__(self, message: str = "", *, remedy: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after_s = retry_after_s


class TooMany(Later):
    """More requests than a key is allowed in this time."""

    code, status = "too_many_requests", 429


class Overloaded(Later):
    """There is more work waiting than can be done in time."""

    code = "overloaded"


class Expired(Later):
    """The time that the caller gave ran out before the work was done."""

    code = "expired"


class Unavailable(Later):
    """Something that is needed, such as the database, cannot be reached now."""

    code = "unavailable"


class DamagedDatabase(Unavailable):
    """The file of the database is damaged: a backup has to be restored."""

    code, exit_code = "damaged_database", 3


class Interrupted(RefaugError):
    """Stopped from outside; the same command goes on where it stopped."""

    code, exit_code, status = "interrupted", 5, 503


class CheckFailed(RefaugError):
    """Built, but not published because a check failed."""

    code, exit_code, status = "check_failed", 6, 409


class StorageFull(RefaugError):
    """The disk, or a quota on it, is full."""

    code, exit_code, status = "storage_full", 1, 507


class NoAccess(RefaugError):
    """A file or folder that is needed cannot be read or written."""

    code, exit_code, status = "no_access", 1, 500


class MissingPart(RefaugError):
    """An optional library, dictionary or program is not installed."""

    code, exit_code, status = "missing_part", 1, 501
