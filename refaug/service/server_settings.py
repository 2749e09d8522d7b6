"""Settings of a server: every limit and path, from flags or the environment, each with a description.

A field `port` is the flag `--port` of `refaug serve` and the variable REFAUG_PORT. The page of settings is generated
from these fields, so that every setting is described.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self, get_type_hints
from urllib.parse import urlsplit

from refaug.core.clusters import require_address
from refaug.core.errors import Usage

MIB: Final = 1 << 20
WEBHOOK_SECRET: Final = "WEBHOOK_SECRET"  # noqa: S105  a variable, and no flag, which others see


def _setting(default: Any, says: str, *, least: float | None = None, most: float | None = None) -> Any:
    """Return a field with its description and the range of valid numbers."""
    return field(default=default, metadata={"says": says, "least": least, "most": most})


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How the service listens, what it serves, and its limits."""

    # Where it listens
    host: str = _setting("127.0.0.1", "address to listen on; one that others reach needs keys, unless --open")
    port: int = _setting(8000, "port to listen on; 0: any that is free", least=0, most=65_535)
    uds: str = _setting("", "Unix socket to listen on instead of an address and a port")
    root_path: str = _setting("", "path under which a proxy shows the service, such as /refaug")
    proxies: str = _setting("127.0.0.1", "addresses whose X-Forwarded-* headers are believed, with commas; *: all")
    allowed_hosts: str = _setting(
        "",
        "names that requests may be addressed to (header Host), with commas, beside localhost and addresses in digits; "
        "*: any, as by itself where keys are required, where others reach the address, and on a socket",
    )
    workers: int = _setting(1, "web processes; throughput comes from batching, so one is mostly best", least=1, most=64)
    job_worker: bool = _setting(True, "whether a process that runs jobs is started beside the web processes")
    open: bool = _setting(False, "answer everyone who reaches a public address, without keys")
    keys: bool = _setting(False, "require keys even on an address that only this machine reaches")

    # What it serves
    default_index: str = _setting("", "index of requests that name none: name or name@version; else the only one")
    default_rater: str = _setting("", "rater of requests that name none: name or name@version; else the only one")
    default_metric: str = _setting(
        "",
        "metric of requests for scores that name none and whose references suit it, such as upsilon-bleu; else the "
        "one that their references are meant for",
    )
    old_versions: int = _setting(
        2,
        "versions that requests have pinned, kept open beside the published; while requests hold this many, and at "
        "least two, others are refused with 503",
        least=0,
        most=64,
    )
    held_references_mib: int = _setting(256, "memory for references found lately; 0: none", least=0, most=1_000_000)
    held_sets: int = _setting(64, "frozen sets kept ready for scoring", least=1, most=10_000)
    held_sets_mib: int = _setting(1_024, "memory for frozen sets kept ready", least=16, most=1_000_000)
    judge_hosts: str = _setting(
        "",
        "hosts that judges may call for requests, with commas: names, names with ports, addresses, networks; "
        "without it no request uses a judge",
    )
    bot_hosts: str = _setting(
        "",
        "hosts that stored bots may call, with commas: names, names with ports, addresses, networks; without it "
        "a server calls none, and a command any",
    )
    webhook: str = _setting(
        "",
        "address that gets a message when a schedule fails, a check refuses a version, or a study reaches its target; "
        "with the variable WEBHOOK_SECRET they are signed",
    )
    clusters: str = _setting(
        "",
        "clusters of Ray that jobs may work on, with commas: HOST:PORT, auto, local; without it no job does",
    )
    sources: str = _setting("", "folders beside inbox/ that jobs may read sources from, with colons between them")
    database: str = _setting("", "URL of a PostgreSQL database; without it, refaug.db in the home")

    # Where indexes are searched
    shards: str = _setting(
        "",
        "cluster of Ray whose machines search the shards of indexes: HOST:PORT, auto, or local; without it this "
        "machine does",
    )
    replicas: int = _setting(1, "processes on the cluster that have each shard open", least=1, most=16)
    shard_timeout_s: float = _setting(
        10.0, "seconds until a shard without an answer counts as missing", least=0.1, most=3_600
    )

    # How much it takes
    items: int = _setting(1_000, "items in one request", least=1, most=100_000)
    replies: int = _setting(10_000, "replies in one request", least=1, most=1_000_000)
    references: int = _setting(1_000, "references of one item", least=1, most=100_000)
    text_chars: int = _setting(20_000, "characters of one text", least=100, most=10_000_000)
    metrics: int = _setting(20, "metrics in one request", least=1, most=1_000)
    scoring_s: float = _setting(
        300.0,
        "seconds of work that the scores of one request may take by the lengths of its texts; most take a third of "
        "that or less",
        least=1,
        most=86_400,
    )
    judge_replies: int = _setting(
        200,
        "questions to judges in one request: one about each reply, or about each of its follow-ups",
        least=1,
        most=100_000,
    )
    judge_tokens: int = _setting(
        1_000_000, "tokens that judges may cost for requests in a day (UTC)", least=1, most=1_000_000_000_000
    )
    bot_tokens: int = _setting(
        1_000_000, "tokens that stored bots may cost in a day (UTC)", least=1, most=1_000_000_000_000
    )
    draws: int = _setting(10_000, "draws of a bootstrap in one request", least=0, most=1_000_000)
    body_mib: int = _setting(32, "size of a request's body, unpacked", least=1, most=4_096)
    bodies_mib: int = _setting(256, "size of all bodies at once", least=1, most=65_536)
    connections: int = _setting(1_000, "connections at once to a web process; more get 503", least=1, most=1_000_000)
    key_requests: int = _setting(
        128,
        "requests at once of one key in a web process, so that other keys are answered, too; more get 429",
        least=1,
        most=100_000,
    )
    wrong_keys: int = _setting(
        10,
        "wrong secrets a minute of one key from one address, and ten times as many of all keys; more get 429, "
        "right ones never",
        least=1,
        most=1_000_000,
    )
    newcomers: int = _setting(
        120,
        "people a minute who are new to a study, by one invitation from one address; more get 429",
        least=1,
        most=1_000_000,
    )
    recruiter_keys: str = _setting(
        "",
        "keys of the recruiting service that signs links of studies (JWKS): a file or an https address; ids without a "
        "signature are then refused",
    )
    recruiter_audience: str = _setting("", "what signed links of studies are meant for (their `aud`)")
    requests: int = _setting(256, "requests at once in a web process; more get 503", least=1, most=100_000)
    streams: int = _setting(100, "streams of events at once", least=1, most=100_000)
    queue_items: int = _setting(4_000, "items that wait for index and rater; more get 503", least=1, most=10_000_000)
    batch_items: int = _setting(64, "items that are found and rated at once", least=1, most=10_000)
    freeze_at_once: int = _setting(
        200, "items that a set is frozen of at once; for more a job is made", least=1, most=100_000
    )
    posted_mib: int = _setting(
        1_024, "dialogues that were posted and wait to be ingested, for each log", least=1, most=10_000_000
    )
    waiting_jobs: int = _setting(1_000, "jobs that wait", least=1, most=1_000_000)
    upload_mib: int = _setting(200, "size of one uploaded file", least=1, most=1_000_000)
    uploads_mib: int = _setting(4_096, "size of all uploaded files together", least=1, most=100_000_000)
    preview_rows: int = _setting(
        10_000, "items of uploaded files that a preview reads; the counts are of these", least=5, most=100_000_000
    )
    preview_mib: int = _setting(16, "size of uploaded files, unpacked, that a preview reads", least=1, most=100_000)
    key_evaluations: int = _setting(20, "evaluations of one key that wait or run", least=1, most=1_000_000)
    evaluation_replies: int = _setting(
        500_000,
        "replies that one evaluation scores or compares; a job with more ends as it reads them",
        least=1,
        most=100_000_000,
    )
    evaluation_s: float = _setting(
        86_400.0,
        "seconds of work that the agreement of one evaluation may take by its sizes; most take a third of that or less",
        least=1,
        most=31_536_000,
    )
    self_play_s: float = _setting(
        604_800.0,
        "seconds of work that one self-play may take by its replies, were all as long as they may be; short ones take "
        "a tenth of that or less",
        least=1,
        most=31_536_000,
    )
    evaluations_mib: int = _setting(8_192, "size of all stored evaluations together", least=1, most=100_000_000)

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
    job_threads: int = _setting(
        0, "threads of a job whose order names none; 0: as many as cores are free when it starts", least=0, most=1_024
    )
    job_nice: int = _setting(
        10, "how far the server's job process steps back behind requests, as `nice` has it", least=0, most=19
    )
    keep_jobs_days: int = _setting(90, "days that ended jobs are kept", least=1, most=36_500)
    keep_uploads_days: int = _setting(7, "days that uploaded files are kept", least=1, most=36_500)
    keep_evaluations_days: int = _setting(90, "days that evaluations are kept", least=1, most=36_500)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None, **flags: Any) -> Self:
        """Return the flags, else the environment, else the defaults; Usage names an invalid setting."""
        values = os.environ if environment is None else environment
        read = {
            setting.name: _parse(setting.name, values[variable_of(setting.name)], setting_types()[setting.name])
            for setting in fields(cls)
            if values.get(variable_of(setting.name), "") != ""
        }
        return cls(**{**read, **{name: value for name, value in flags.items() if value is not None}})

    def __post_init__(self) -> None:
        for setting in fields(self):
            number, least, most = getattr(self, setting.name), setting.metadata["least"], setting.metadata["most"]
            if least is not None and not least <= number <= most:
                raise Usage(
                    f"{variable_of(setting.name)} is {number:,}, which is out of range",
                    remedy=f"from {least:,g} to {most:,g}: {setting.metadata['says']}",
                )
        if self.batch_items > self.queue_items:
            raise Usage(
                f"a batch of {self.batch_items:,} items does not fit into a queue of {self.queue_items:,}",
                remedy="a larger REFAUG_QUEUE_ITEMS, or a smaller REFAUG_BATCH_ITEMS",
            )
        if self.shards:
            require_address(self.shards)
        elif self.replicas > 1:
            raise Usage(f"{self.replicas} replicas, and no shards on a cluster", remedy="--shards with its address")
        _require_path(self.root_path)
        _require_metric(self.default_metric)
        for address in self.proxies.split(",") if self.proxies not in ("", "*") else ():
            _require_address(address.strip())
        for name in self.allowed_hosts.split(",") if self.allowed_hosts not in ("", "*") else ():
            _require_host(name.strip())
        _require_recruiter(self.recruiter_keys, self.recruiter_audience)
        _require_hosts("judge_hosts", self.judge_hosts)
        _require_hosts("bot_hosts", self.bot_hosts)
        _require_webhook(self)
        for address in self.cluster_addresses:
            _require_cluster(address)

    @property
    def cluster_addresses(self) -> tuple[str, ...]:
        """The clusters that jobs may work on."""
        return tuple(address.strip() for address in self.clusters.split(",") if address.strip())

    def as_env(self) -> dict[str, str]:
        """Return the settings as variables for a child process."""
        return {variable_of(one.name): _format(getattr(self, one.name)) for one in fields(self)}


def is_local(settings: ServeSettings) -> bool:
    """Return whether only this machine reaches the address."""
    if settings.uds:
        return True
    try:
        return ipaddress.ip_address(settings.host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return settings.host == "localhost"  # the address of another name may change


def variable_of(name: str) -> str:
    """Return the variable of a field."""
    return f"REFAUG_{name.upper()}"


def setting_types() -> Mapping[str, type]:
    """Return the type of every field."""
    return get_type_hints(ServeSettings)


_PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)+/?")
_SECRET_PREFIX: Final = "whsec_"  # noqa: S105  what secrets in base64 begin with
_HOST: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_YES: Final = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parse(name: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    if kind is bool and text.strip().lower() in _YES:
        return _YES[text.strip().lower()]
    try:
        if kind in (int, float):
            return kind(text)
    except ValueError:
        pass
    expected = {bool: "yes or no", int: "a whole number", float: "a number"}[kind]
    raise Usage(f"{variable_of(name)} is {text!r}", remedy=f"{expected} is expected")


def _require_path(text: str) -> None:
    """Raise Usage for a text that no URL path begins with."""
    if text and not _PATH.fullmatch(text):
        raise Usage(f"REFAUG_ROOT_PATH is {text!r}", remedy="a path that begins with a slash, such as /refaug")


def _require_metric(text: str) -> None:
    """Raise Usage for a default metric whose text specifies no metric, or that needs a further artefact.

    An encoder is opened for requests, which are told how to get a missing one.
    """
    if not text:
        return
    from refaug.metrics.catalogue import find  # noqa: PLC0415
    from refaug.metrics.models.model_kinds import ModelKind  # noqa: PLC0415
    from refaug.metrics.specification import Specification, build, settings_of  # noqa: PLC0415  compiles
    from refaug.scoring.metric_setup.metric_requests import MetricRequest  # noqa: PLC0415  numpy

    models = MetricRequest.of(text).models
    is_encoded = any(model.parameter.kind is ModelKind.ENCODER and model.spec for model in models)
    served = {ModelKind.RATER, *([ModelKind.ENCODER] if is_encoded else [])}
    if refused := [model for model in models if model.parameter.kind not in served]:
        raise Usage(
            f"REFAUG_DEFAULT_METRIC is {text!r}, which needs {refused[0].parameter.words}",
            remedy="a metric that needs none",
        )
    try:
        parsed = Specification.parse(text)
        if is_encoded:
            settings_of(find(parsed.name), parsed, {})
        else:
            build(parsed, {})
    except Usage as error:
        raise Usage(f"REFAUG_DEFAULT_METRIC is {text!r}: {error.message}", remedy=error.remedy) from None


def _require_recruiter(keys: str, audience: str) -> None:
    """Raise Usage for keys that could be replaced on the way, or for one of the two settings alone."""
    if bool(keys) != bool(audience):
        raise Usage(
            f"REFAUG_RECRUITER_KEYS is {keys!r}, and REFAUG_RECRUITER_AUDIENCE {audience!r}",
            remedy="both, or neither",
        )
    parts = urlsplit(keys)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise Usage(f"REFAUG_RECRUITER_KEYS is {keys!r}", remedy="an https address, or a file")


def webhook_key(secret: str) -> bytes:
    """Return the key that a webhook's secret stands for; Usage where it stands for none."""
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode(errors="surrogateescape")
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        what = f"{WEBHOOK_SECRET} begins with {_SECRET_PREFIX}, and what follows is not base64"
        raise Usage(what, remedy=f"{_SECRET_PREFIX} and the key in base64, or a secret without {_SECRET_PREFIX}")
    return key


def webhook_place(address: str) -> tuple[str, int]:
    """Return the host and the port of a webhook; ValueError for a port that cannot be."""
    parts = urlsplit(address)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _require_webhook(settings: ServeSettings) -> None:
    """Raise Usage for a webhook that is no address, or the server's own one; user and path, secrets, are not shown."""
    if not settings.webhook:
        return
    remedy = "an address such as https://hooks.example.com/refaug"
    unusable = Usage("REFAUG_WEBHOOK has a host or a port that cannot be", remedy=remedy)
    try:
        parts = urlsplit(settings.webhook)
        host, port = webhook_place(settings.webhook)
        host.encode("idna")
    except ValueError:
        raise unusable from None
    faults = {
        "does not begin with https:// or http://": parts.scheme not in ("http", "https"),
        "has no host": not parts.hostname,
        "has a user or password": parts.username is not None or parts.password is not None,
        "has a #": bool(parts.fragment),
    }
    if present := [fault for fault, is_there in faults.items() if is_there]:
        raise Usage(f"REFAUG_WEBHOOK {present[0]}", remedy=remedy)
    webhook_key(os.environ.get(WEBHOOK_SECRET, ""))
    own_names = {"localhost", "127.0.0.1", "::1", settings.host.strip("[]")}
    if not settings.uds and port == settings.port and host in own_names:
        raise Usage(f"REFAUG_WEBHOOK is {host}:{port}, this server's own address", remedy=remedy)
    from refaug.bots.endpoint.addresses import AddressPolicy  # noqa: PLC0415  httpx, which the process of jobs needs

    try:
        AddressPolicy.of_list([f"{host}:{port}"])
    except Usage:
        raise unusable from None


def _require_hosts(name: str, text: str) -> None:
    """Raise Usage for a list that names no hosts."""
    if not text:
        return
    from refaug.bots.endpoint.addresses import AddressPolicy  # noqa: PLC0415  httpx, only where hosts are listed

    try:
        AddressPolicy.of_list(text.split(","))
    except Usage as error:
        raise Usage(f"{variable_of(name)} is {text!r}: {error.message}", remedy=error.remedy) from None


def _require_cluster(text: str) -> None:
    """Raise Usage for a text that is no cluster's address."""
    try:
        require_address(text)
    except Usage as error:
        raise Usage(f"REFAUG_CLUSTERS names {text!r}, which is not a cluster's address", remedy=error.remedy) from None


def _require_address(text: str) -> None:
    """Raise Usage for a text that is never a proxy's address, and so would trust no header."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise Usage(
            f"REFAUG_PROXIES names {text!r}",
            remedy="addresses or networks with commas between them, such as 127.0.0.1,10.0.0.0/8; or *",
        ) from None


def _require_host(text: str) -> None:
    """Raise Usage for a text that never stands in a Host header, such as a name with a scheme or a port."""
    if not _HOST.fullmatch(text):
        raise Usage(
            f"REFAUG_ALLOWED_HOSTS names {text!r}",
            remedy="names without ports, with commas between them, such as refaug.example.org; or *",
        )


def _format(setting: object) -> str:
    return ("yes" if setting else "no") if isinstance(setting, bool) else str(setting)
