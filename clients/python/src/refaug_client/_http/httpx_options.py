"""The options of httpx clients, from the settings of a connection."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx

from refaug_client._core import errors

from .settings import ConnectionSettings


def client_options(to: ConnectionSettings) -> dict[str, Any]:
    if to.uds:
        return {}
    address = httpx.URL(to.url)
    # a proxy of the environment (HTTP_PROXY) would look for the server on its own machine, and see key and texts
    mounts = {f"all://{address.netloc.decode('ascii')}": None} if _is_this_machine(address.host) else None
    return {"limits": _limits(to), "verify": _certificates(to), "mounts": mounts}


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _certificates(to: ConnectionSettings) -> Any:
    """Return what certificates are checked against; without TLS nothing is read, which would take time."""
    if not isinstance(to.verify, str):
        return to.verify and to.url.startswith("https")
    import ssl  # noqa: PLC0415  httpx reads it only when it is needed, too

    try:
        if Path(to.verify).is_dir():
            return ssl.create_default_context(capath=to.verify)
        return ssl.create_default_context(cafile=to.verify)
    except (OSError, ssl.SSLError) as error:
        raise errors.Usage(f"verify={to.verify!r}: {error}", remedy="a file or folder of certificates") from error


def transport_options(to: ConnectionSettings) -> dict[str, Any]:
    return {"uds": to.uds, "limits": _limits(to), "verify": False}  # no other user can listen on its path


def _limits(to: ConnectionSettings) -> httpx.Limits:
    return httpx.Limits(
        max_connections=to.connections, max_keepalive_connections=to.connections, keepalive_expiry=4.0
    )  # shorter than servers and proxies keep one, so that they rarely close it just as it is used
