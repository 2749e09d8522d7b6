"""Traces that nothing has set up, and a collector that hangs; clients/opentelemetry/tests has those of a service."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from opentelemetry.trace import NoOpTracerProvider

from refaug.service import traces
from refaug.service.traces import Traces

PROGRAM = """
import sys
import refaug.service.jobs.worker
from refaug.service.traces import opened_traces

for _ in range(2):
    with opened_traces() as traces:
        print(traces, sum(name.split(".")[0] == "opentelemetry" for name in sys.modules) > 0)
    import opentelemetry.trace
"""


def test_nothing_is_imported_and_nothing_traced_where_no_provider_is_set_up() -> None:
    """The second time something has imported the API, as FastAPI does, but set up nothing."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None False", "None True"]


def test_a_collector_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    class HangingProvider(NoOpTracerProvider):
        def force_flush(self) -> None:
            has_begun.set()
            may_end.wait()

    monkeypatch.setattr(traces, "_FLUSH_S", 0.01)
    Traces(HangingProvider()).flush()
    assert has_begun.wait(60)
    may_end.set()
