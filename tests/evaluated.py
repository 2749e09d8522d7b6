"""A table of replies, sent to the service to be evaluated."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

BYTES = {"Content-Type": "application/octet-stream"}
TABLE = b"id,utterance,reference,reply:old,reply:new\n" + b"".join(
    b"%d,how are you %d,i am fine %d,i am %d,i am fine %d thanks\n" % (n, n, n, n, n) for n in range(8)
)


def asked(client: TestClient, **order: Any) -> str:
    """The id of an evaluation of the table that waits."""
    sent = client.post("/v1/uploads?name=t.csv", content=TABLE, headers=BYTES).json()
    named = {"kind": "score", "items": f"upload:{sent['id']}", "metrics": ["chrf"], **order}
    answer = client.post("/v1/evaluations", json=named)
    assert answer.status_code == 202, answer.text
    name: str = answer.json()["id"]
    return name
