"""Where a store lies: a folder, a bucket with a prefix, or a repository of the Hugging Face Hub.

Credentials come from the environment.

A location is checked before anything is opened, and holds no secret: it stands in messages and in lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from pyarrow import fs

from refaug.core.artefacts.store.hub_files import HUB, HubFiles
from refaug.core.artefacts.store.store_files import ArrowFiles, LocalFiles, StoreFiles
from refaug.core.errors import MissingPart, Usage

S3: Final = "s3"
OTHER_SCHEMES: Final = ("gs", "abfs", "abfss")  # of pyarrow; their credentials, too, are in the environment

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._=-]{1,128}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LONGEST_WAIT_S: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """The settings of a store, from the environment and from an option."""

    location: str
    endpoint: str = ""  # of an object store that is not Amazon's: http(s)://host:port
    timeout_s: float = 60.0

    @classmethod
    def from_env(cls, location: str | None = None, environment: Mapping[str, str] | None = None) -> Self:
        """Read REFAUG_STORE and its like; `location` replaces REFAUG_STORE."""
        variables = os.environ if environment is None else environment
        chosen = location or variables.get("REFAUG_STORE", "")
        if not chosen:
            raise Usage(
                "no store is named", remedy="--store FOLDER, s3://BUCKET/PREFIX or hf://OWNER/NAME, or set REFAUG_STORE"
            )
        text = variables.get("REFAUG_STORE_TIMEOUT_S", "")
        try:
            timeout_s = float(text) if text else cls.timeout_s
        except ValueError:
            timeout_s = 0.0
        if not 0 < timeout_s <= _LONGEST_WAIT_S:
            raise Usage(f"REFAUG_STORE_TIMEOUT_S is {text!r}", remedy="give seconds, more than 0 and at most 3600")
        return cls(location=chosen, endpoint=variables.get("REFAUG_STORE_ENDPOINT", ""), timeout_s=timeout_s)

    @classmethod
    def from_env_or_none(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """Read them where REFAUG_STORE names a store; what is wrong with them is Usage as in `from_env`."""
        variables = os.environ if environment is None else environment
        return cls.from_env(None, variables) if variables.get("REFAUG_STORE") else None


@contextmanager
def open_store(settings: StoreSettings) -> Iterator[StoreFiles]:
    """Open the files of a store; Usage says what is wrong with its location."""
    files = _files_of(settings)
    try:
        yield files
    finally:
        files.close()


def _files_of(settings: StoreSettings) -> StoreFiles:
    scheme, colon, _ = settings.location.partition("://")
    if not colon:
        return LocalFiles(Path(settings.location).absolute())
    parts = urlsplit(settings.location)
    if "@" in parts.netloc:
        raise Usage(
            "the location of the store holds a user or a password", remedy="credentials belong in the environment"
        )
    if parts.query or parts.fragment:
        raise Usage("the location of the store holds a query", remedy="an endpoint belongs into REFAUG_STORE_ENDPOINT")
    if scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise Usage(f"{settings.location!r} names no folder", remedy="file:///FOLDER, or the folder itself")
        return LocalFiles(Path(parts.path))
    if scheme == HUB:
        return HubFiles(settings.location)
    if scheme not in (S3, *OTHER_SCHEMES):
        raise Usage(
            f"{scheme}:// is not a kind of store",
            remedy=f"a folder, or one of {', '.join((S3, *OTHER_SCHEMES, HUB))}://",
        )
    root = _bucket_and_prefix(settings.location, parts.netloc, parts.path)
    filesystem = _s3(settings) if scheme == S3 else _other(scheme, root)
    return ArrowFiles(filesystem, root, f"{scheme}://{root}", timeout_s=settings.timeout_s)


def _bucket_and_prefix(location: str, bucket: str, path: str) -> str:
    prefix = [part for part in path.split("/") if part]
    odd = next((part for part in prefix if _PREFIX.fullmatch(part) is None or set(part) == {"."}), None)
    if _BUCKET.fullmatch(bucket) is None or ".." in bucket or odd is not None:
        raise Usage(
            f"{location!r} names no bucket with a prefix" + (f": {odd!r} cannot be a part of one" if odd else ""),
            remedy="s3://BUCKET/PREFIX, the bucket in lower-case letters, digits, '.' and '-'",
        )
    return "/".join([bucket, *prefix])


def _s3(settings: StoreSettings) -> fs.FileSystem:
    options: dict[str, object] = {}
    if settings.endpoint:
        options |= _endpoint_options(settings.endpoint)
        options["region"] = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return fs.S3FileSystem(
        connect_timeout=min(settings.timeout_s, 10.0),
        request_timeout=settings.timeout_s,
        allow_delayed_open=True,  # small files take one request
        background_writes=False,  # a write that is not done yet must not count as progress
        **options,
    )


def _endpoint_options(endpoint: str) -> dict[str, object]:
    parts = urlsplit(endpoint)
    try:
        port = parts.port
    except ValueError:
        port = -1
    host = parts.hostname or ""
    is_ipv6 = ":" in host
    valid_host = is_ipv6 or _HOST.fullmatch(host) is not None
    if (
        parts.scheme not in ("http", "https")
        or "@" in parts.netloc
        or not valid_host
        or port == -1
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise Usage(
            "REFAUG_STORE_ENDPOINT is not an address of a server",
            remedy="http(s)://HOST[:PORT], with nothing behind it",
        )
    shown = f"[{host}]" if is_ipv6 else host
    return {"scheme": parts.scheme, "endpoint_override": shown if port is None else f"{shown}:{port}"}


def _other(scheme: str, root: str) -> fs.FileSystem:
    try:
        filesystem, _ = fs.FileSystem.from_uri(f"{scheme}://{root}")
    except (NotImplementedError, ValueError, OSError) as error:
        raise MissingPart(
            f"pyarrow opens no {scheme}:// here: {error}", remedy="name a folder, or s3://BUCKET/PREFIX"
        ) from error
    return filesystem
