"""The thread of a worker that delivers notices to a webhook, signed as https://www.standardwebhooks.com has it.

It waits longer after each failure, and never keeps a job waiting. What the other side does not take for three days is
given up, so that later notices follow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from refaug.bots.endpoint.addresses import AddressPolicy, AddressRefused
from refaug.bots.endpoint.posting import Posted, post_message
from refaug.core.errors import NotAllowed, RefaugError
from refaug.service.history.notices import KEPT, LONGEST_WAIT, Notice, NoticeBox, now_in_utc
from refaug.service.server_settings import WEBHOOK_SECRET, ServeSettings, webhook_key, webhook_place

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
_LEASE_S: Final = 3 * TIMEOUT_S  # after which another process may send a notice again
_LOOK_S: Final = 1.0
_MOST_TRIES: Final = 84  # as many as there are in three days, for notices of a time when a clock was wrong


def signature(secret: str, notice: str, at: int, body: bytes) -> str:
    """Return the signature of a message: of its id, its time in seconds, and its body."""
    signed = hmac.new(webhook_key(secret), f"{notice}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def wait_s(tries: int) -> float:
    """Return how long to wait after so many tries: a second, then twice as long each time, up to an hour."""
    return min(2.0 ** min(tries - 1, 20), LONGEST_WAIT.total_seconds())


def webhook_policy(serve: ServeSettings) -> AddressPolicy:
    """Return where notices may go: the address that is set; a name leads inside only where a listed network has it."""
    host, port = webhook_place(serve.webhook)
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    hosts = [place, *(serve.bot_hosts.split(",") if serve.bot_hosts else [])]
    return AddressPolicy.of_list(hosts, "name the address in digits, or list its network in --bot-hosts")


def describe_webhook(serve: ServeSettings) -> str:
    """Return where notices go and whether they are signed; NotAllowed where the address would never be connected to."""
    host, port = webhook_place(serve.webhook)
    signed = "signed" if os.environ.get(WEBHOOK_SECRET) else f"not signed, since {WEBHOOK_SECRET} is not set"
    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return f"{host} cannot be resolved now; {signed}"
    try:
        for address in sorted(addresses):
            webhook_policy(serve).require_address(host, address, port, is_plain_secret=False)
    except AddressRefused as refused:
        raise NotAllowed(refused.reason, remedy=refused.advice or "another --webhook") from refused
    return f"{host}, {signed}"


class NoticeSender:
    """Delivers the notices of a database to one address."""

    def __init__(
        self,
        box: NoticeBox,
        serve: ServeSettings,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], datetime] = now_in_utc,
    ) -> None:
        self._box, self._url, self._policy = box, serve.webhook, webhook_policy(serve)
        self._secret = os.environ.get(WEBHOOK_SECRET, "")
        self._timeout_s, self._clock = timeout_s, clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """Deliver no more; a notice that is under way stays until its time is over."""
        self._over.set()
        self._thread.join(self._timeout_s)

    def deliver_next(self) -> bool:
        """Send the oldest notice that is due; return whether the next one may follow at once."""
        notice = self._box.take(self._clock(), _LEASE_S)
        if notice is None:
            return False
        try:
            posted = self._send(notice)
        except Exception as error:  # noqa: BLE001  its text may have the secret address, and is not logged
            why = type(error).__name__
            log.error("a notice cannot be sent", extra={"notice": notice.id, "why": why})  # noqa: TRY400
            posted = Posted(problem=f"it cannot be sent: {why}")
        if posted.problem is None:
            self._box.remove(notice.id)
            return True
        fields = {"notice": notice.id, "try": notice.tries, "why": posted.problem}
        if notice.tries >= _MOST_TRIES or self._clock() - notice.at > KEPT:
            log.error("a notice was given up", extra=fields)
            self._box.remove(notice.id)
            return True
        log.warning("a notice was not taken", extra=fields)
        self._box.put_off(notice.id, self._clock() + timedelta(seconds=wait_s(notice.tries)), posted.problem)
        return False

    def _send(self, notice: Notice) -> Posted:
        at = int(self._clock().timestamp())
        headers = {"Content-Type": "application/json", "webhook-id": notice.id, "webhook-timestamp": str(at)}
        if self._secret:
            headers["webhook-signature"] = signature(self._secret, notice.id, at, notice.body)
        return post_message(self._url, notice.body, headers, self._policy, timeout_s=self._timeout_s)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                while not self._over.is_set() and self.deliver_next():
                    pass
            except RefaugError as error:  # the database is away; notices wait in it
                log.info("notices wait", extra={"why": error.message})
            except Exception:
                log.exception("notices are not sent")
