"""Spans of requests and jobs, for the OpenTelemetry that the environment of a process has set up.

`opentelemetry-instrument` sets up a provider of tracers in each process, spawned ones too, before any code of ours
runs. Without it nothing is imported here, and no span is made. A span is made when its request or job has ended, from
what the log says of it: it holds no path, no query, no header and no text.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from refaug.core.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, TracerProvider

_FLUSH_S: Final = 5.0  # that a process which ends waits for a collector

_Attributes = dict[str, str | int]


class Traces:
    """Where the spans of a process go."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import propagate, trace  # noqa: PLC0415  few servers are traced

        self._provider = provider
        self._tracer = provider.get_tracer("refaug", VERSION)
        self._extract, self._kinds, self._error = propagate.extract, trace.SpanKind, trace.StatusCode.ERROR

    def add_request(
        self, headers: Mapping[str, str], *, request: str, route: str | None, method: str, status: int, seconds: float
    ) -> None:
        """Add the span of a request that has just ended, as a child of the span that its `traceparent` names.

        `route` is the template of the path; None where no route has it. A status of 0 says that nothing was answered.
        """
        attributes: _Attributes = {"refaug.request.id": request, "http.request.method": method}
        if route is not None:
            attributes["http.route"] = route
        if status:
            attributes["http.response.status_code"] = status
        if status >= 500:
            attributes["error.type"] = str(status)
        name = f"{method} {route}" if route is not None else method
        self._add(name, self._kinds.SERVER, attributes, seconds, parent=self._extract(headers))

    def add_job(self, job: str, *, kind: str, state: str, tries: int, code: str | None, seconds: float) -> None:
        """Add the span of a run of a job that has just ended; `code` is that of its error."""
        attributes: _Attributes = {
            "refaug.job.id": job,
            "refaug.job.kind": kind,
            "refaug.job.state": state,
            "refaug.job.try": tries,
        }
        if code is not None:
            attributes["error.type"] = code
        self._add(f"job {kind}", self._kinds.CONSUMER, attributes, seconds)

    def _add(
        self, name: str, kind: SpanKind, attributes: _Attributes, seconds: float, *, parent: Context | None = None
    ) -> None:
        end = time.time_ns()
        begun = end - round(seconds * 1e9)
        span = self._tracer.start_span(name, context=parent, kind=kind, attributes=attributes, start_time=begun)
        if "error.type" in attributes:
            span.set_status(self._error)
        span.end(end)

    def flush(self) -> None:
        """Send what waits, as far as the collector takes it in a few seconds."""
        flush = getattr(self._provider, "force_flush", None)  # the SDK has it; the API does not ask for it
        if flush is not None:
            thread = threading.Thread(target=flush, name="traces", daemon=True)
            thread.start()
            thread.join(_FLUSH_S)


@contextmanager
def opened_traces() -> Iterator[Traces | None]:
    """Yield where spans go, and send the last ones at the end; None where the environment has set up no provider."""
    traces = _traces()
    try:
        yield traces
    finally:
        if traces is not None:
            traces.flush()


def _traces() -> Traces | None:
    if "opentelemetry.trace" not in sys.modules:  # what sets up a provider has imported it
        return None
    from opentelemetry import trace  # noqa: PLC0415

    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else Traces(provider)
