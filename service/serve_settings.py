"""What a server is told: every limit and place as a setting, from flags or the environment, each with its words.

A field `port` is the flag `--port` of `refaug serve` and the variable REFAUG_PORT; the page of settings is made of
these fields, so that nothing can be set which is not described.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self, get_type_hints

from core.errors import Usage

MIB: Final = 1 << 20


def _setting(default: Any, says: str, *, least: float | None = None, most: float | None = None) -> Any:
    """A field with what it is for, and the numbers between which it makes sense."""
    return field(default=default, metadata={"says": says, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How the service listens, what it holds, and how much of anything it takes."""

    # Where it listens
    host: str = _setting("127.0.0.1", "address to listen on; one that others reach needs keys, unless --open")
    port: int = _setting(8000, "port to listen on; 0: any that is free", least=0, most=65_535)
    uds: str = _setting("", "Unix socket to listen on instead of an address and a port")
    root_path: str = _setting("", "path under which a proxy shows the service, such as /refaug")
    proxies: str = _setting("127.0.0.1", "addresses whose X-Forwarded-* headers are believed, with commas; *: all")
    allowed_hosts: str = _setting(
        "",
        "names that requests may be addressed to (header Host), with commas, beside localhost and addresses in digits; "
        "*: any, as by itself where keys are asked for, where others reach the address, and on a socket",
    )
    workers: int = _setting(1, "web processes; throughput comes from batching, so one is mostly best", least=1, most=64)
    job_worker: bool = _setting(True, "whether a process that runs jobs is started beside the web processes")
    open: bool = _setting(False, "answer anybody who reaches a public address, without keys")
    keys: bool = _setting(False, "ask for keys even on an address that only this machine reaches")

    # What it serves
    default_index: str = _setting("", "index of requests that name none: name or name@version; else the only one")
    default_rater: str = _setting("", "rater of requests that name none: name or name@version; else the only one")
    old_versions: int = _setting(
        2,
        "versions that requests have pinned, kept open beside the published; while requests hold so many, and at least "
        "two, others are told to come again",
        least=0,
        most=64,
    )
    held_references_mib: int = _setting(256, "memory for references found lately; 0: none", least=0, most=1_000_000)
    held_sets: int = _setting(64, "frozen sets kept ready for scoring", least=1, most=10_000)
    held_sets_mib: int = _setting(1_024, "memory for frozen sets kept ready", least=16, most=1_000_000)
    sources: str = _setting("", "folders beside inbox/ that jobs may read sources from, with colons between them")
    database: str = _setting("", "URL of a PostgreSQL database; without it, refaug.db in the home")

    # How much it takes
    items: int = _setting(1_000, "items in one request", least=1, most=100_000)
    replies: int = _setting(10_000, "replies in one request", least=1, most=1_000_000)
    references: int = _setting(1_000, "references of one item", least=1, most=100_000)
    text_chars: int = _setting(20_000, "characters of one text", least=100, most=10_000_000)
    metrics: int = _setting(20, "metrics in one request", least=1, most=1_000)
    draws: int = _setting(10_000, "draws of a bootstrap in one request", least=0, most=1_000_000)
    body_mib: int = _setting(32, "size of a request's body, unpacked", least=1, most=4_096)
    bodies_mib: int = _setting(256, "size of all bodies at once", least=1, most=65_536)
    connections: int = _setting(
        1_000, "connections at once to a web process; more are told to come again", least=1, most=1_000_000
    )
    requests: int = _setting(256, "requests at once; more are told to come again", least=1, most=100_000)
    streams: int = _setting(100, "streams of events at once", least=1, most=100_000)
    queue_items: int = _setting(
        4_000, "items that wait for index and rater; more are told to come again", least=1, most=10_000_000
    )
    batch_items: int = _setting(64, "items that are found and rated at once", least=1, most=10_000)
    freeze_at_once: int = _setting(
        200, "items that a set is frozen of at once; for more a job is made", least=1, most=100_000
    )
    posted_mib: int = _setting(
        1_024, "dialogues that were posted and wait to be ingested, for each log", least=1, most=10_000_000
    )
    waiting_jobs: int = _setting(1_000, "jobs that wait", least=1, most=1_000_000)

    # How long it takes
    timeout_s: float = _setting(
        60.0, "seconds until an answer, unless the request asks for fewer", least=0.1, most=86_400
    )
    body_timeout_s: float = _setting(30.0, "seconds until a request's body is there", least=0.1, most=86_400)
    publish_wait_s: float = _setting(10.0, "seconds that publishing waits for all web processes", least=0, most=600)
    shutdown_s: float = _setting(
        30.0, "seconds that requests have to end when the service is stopped", least=0, most=3_600
    )
    start_s: float = _setting(
        600.0, "seconds that a web process may be silent, as when it opens a large index", least=1, most=86_400
    )
    look_s: float = _setting(0.2, "seconds between two looks at which versions are published", least=0.01, most=0.25)
    job_tries: int = _setting(3, "times that a job is begun again after its process died", least=1, most=100)
    keep_jobs_days: int = _setting(90, "days that ended jobs are kept", least=1, most=36_500)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Self:
        """What flags say, else the environment, else the defaults; Usage names the setting that makes no sense."""
        values = os.environ if environment is None else environment
        read = {
            one.name: _parsed(one.name, values[variable_of(one.name)], hints()[one.name])
            for one in fields(cls)
            if values.get(variable_of(one.name), "") != ""
        }
        return cls(**{**read, **{name: value for name, value in given.items() if value is not None}})

    def __post_init__(self) -> None:
        for one in fields(self):
            value, least, most = getattr(self, one.name), one.metadata["least"], one.metadata["most"]
            if least is not None and not least <= value <= most:
                raise Usage(
                    f"{variable_of(one.name)} is {value:,}, which is out of range",
                    remedy=f"from {least:,g} to {most:,g}: {one.metadata['says']}",
                )
        if self.batch_items > self.queue_items:
            raise Usage(
                f"a batch of {self.batch_items:,} items does not fit into a queue of {self.queue_items:,}",
                remedy="a larger REFAUG_QUEUE_ITEMS, or a smaller REFAUG_BATCH_ITEMS",
            )
        _require_path(self.root_path)
        for address in self.proxies.split(",") if self.proxies not in ("", "*") else ():
            _require_address(address.strip())
        for name in self.allowed_hosts.split(",") if self.allowed_hosts not in ("", "*") else ():
            _require_host(name.strip())

    def as_env(self) -> dict[str, str]:
        """The same for a process of ours to read back."""
        return {variable_of(one.name): _written(getattr(self, one.name)) for one in fields(self)}


def is_local(settings: ServeSettings) -> bool:
    """Whether only this machine reaches the address."""
    if settings.uds:
        return True
    try:
        return ipaddress.ip_address(settings.host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return settings.host == "localhost"  # what other names stand for may change


def variable_of(name: str) -> str:
    """The variable that stands for a field."""
    return f"REFAUG_{name.upper()}"


def hints() -> Mapping[str, type]:
    """The type of every field."""
    return get_type_hints(ServeSettings)


_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+/?")
_HOST: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_YES: Final = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parsed(name: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    if kind is bool and text.strip().lower() in _YES:
        return _YES[text.strip().lower()]
    try:
        if kind in (int, float):
            return kind(text)
    except ValueError:
        pass
    wanted = {bool: "yes or no", int: "a whole number", float: "a number"}[kind]
    raise Usage(f"{variable_of(name)} is {text!r}", remedy=f"{wanted} is expected")


def _require_path(text: str) -> None:
    """Usage for what no address on this service could begin with."""
    if text and not _PATH.fullmatch(text):
        raise Usage(f"REFAUG_ROOT_PATH is {text!r}", remedy="a path that begins with a slash, such as /refaug")


def _require_address(text: str) -> None:
    """Usage for what would never be the address of a proxy, and so would let no header be believed."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise Usage(
            f"REFAUG_PROXIES names {text!r}",
            remedy="addresses or networks with commas between them, such as 127.0.0.1,10.0.0.0/8; or *",
        ) from None


def _require_host(text: str) -> None:
    """Usage for what never stands in a header, such as a name with a scheme before it or a port behind it."""
    if not _HOST.fullmatch(text):
        raise Usage(
            f"REFAUG_ALLOWED_HOSTS names {text!r}",
            remedy="names without ports, with commas between them, such as refaug.example.org; or *",
        )


def _written(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
