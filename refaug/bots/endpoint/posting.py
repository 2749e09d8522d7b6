"""One message to an address that an operator has named, over connections to checked addresses only."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused, CheckedTransport


@dataclass(frozen=True, kw_only=True)
class Posted:
    """What became of a message; without a problem it was taken."""

    problem: str | None = None


def post_message(
    url: str, body: bytes, headers: Mapping[str, str], policy: AddressPolicy, *, timeout_s: float = 10.0
) -> Posted:
    """Post a body; redirects are not followed, and what comes back with the status is not read."""
    return asyncio.run(_post(url, body, headers, policy, timeout_s))


async def _post(url: str, body: bytes, headers: Mapping[str, str], policy: AddressPolicy, timeout_s: float) -> Posted:
    is_encrypted = url.startswith("https:")
    context = httpx2.create_ssl_context() if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    transport = CheckedTransport(policy, httpx2.AsyncHTTPTransport(verify=context))
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx2.AsyncClient(transport=transport, timeout=timeout_s, follow_redirects=False, trust_env=False) as http,
            http.stream("POST", url, content=body, headers=dict(headers)) as answer,
        ):
            status = answer.status_code
    except (TimeoutError, httpx2.TimeoutException):
        return Posted(problem=f"no answer within {timeout_s:g} s")
    except AddressRefused as refused:
        return Posted(problem=str(refused))
    except httpx2.TransportError as error:
        return Posted(problem=f"no connection: {str(error)[:200] or type(error).__name__}")
    return Posted() if 200 <= status < 300 else Posted(problem=f"status {status}")
