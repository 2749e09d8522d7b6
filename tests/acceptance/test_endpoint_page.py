"""The page about a model behind an endpoint does what it shows, against a server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from acceptance.examples import ROOT, run, whole
from endpoints import Received, endpoint, openai, vllm

PAGE = ROOT / "docs" / "endpoint.md"


def small_model(received: Received) -> dict[str, Any]:
    """What a small model might say; it keeps its secrets."""
    if "secret" in received.prompt:
        answer = openai(None, refusal="I cannot tell.")
        return {**answer, "usage": {"prompt_tokens": 90, "completion_tokens": 7}}
    return vllm("Try the market, they have good tea." if "tea" in received.prompt else "It leaves in ten minutes.")


def test_every_example_of_the_page_gives_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with endpoint(small_model) as fake:
        page = tmp_path / "page.md"
        page.write_text(PAGE.read_text("utf-8").replace("127.0.0.1:8000", f"127.0.0.1:{fake.port}"), "utf-8")
        run(whole(page), tmp_path, monkeypatch, capfd)
    sent = [received.body for received in fake.received]
    assert len(sent) == 4
    assert [message["role"] for message in sent[1]["messages"]] in (
        ["system", "user", "assistant", "user"],
        ["system", "user"],
    )
    assert {body["seed"] for body in sent[1:]} == {7}
