"""Times of replies counted in bounded memory: the quantiles are those of all times at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refaug.bots.replier import Latency, LatencyTally

SHORT = st.integers(0, 65_000).map(lambda steps: steps / 100)
TIMES = st.lists(SHORT | st.floats(0, 8_000_000), min_size=1, max_size=60)


def tally_of(times: list[float]) -> LatencyTally:
    tally = LatencyTally()
    for first in range(0, len(times), 7):
        tally.add(times[first : first + 7])
    return tally


@given(times=st.lists(SHORT, min_size=1, max_size=80))
def test_times_as_they_are_written_have_the_exact_quantiles(times: list[float]) -> None:
    counted, whole = tally_of(times).latency(), Latency.of(times)
    assert counted is not None
    assert whole is not None
    assert counted.replies == len(times)
    assert (counted.mean_ms, counted.median_ms, counted.p95_ms) == pytest.approx(
        (whole.mean_ms, whole.median_ms, whole.p95_ms), abs=0.0011
    )


@given(times=TIMES)
def test_long_times_are_counted_to_a_thousandth(times: list[float]) -> None:
    counted = tally_of(times).latency()
    assert counted is not None
    median, p95 = np.quantile(times, (0.5, 0.95))
    assert counted.median_ms == pytest.approx(median, rel=1.1e-3, abs=0.006)
    assert counted.p95_ms == pytest.approx(p95, rel=1.1e-3, abs=0.006)


def test_no_time_is_no_latency_and_a_day_is_a_long_time() -> None:
    assert LatencyTally().latency() is None
    counted = tally_of([1.0, 86_400_000.0]).latency()
    assert counted is not None
    assert counted.mean_ms == 43_200_000.5
    assert counted.p95_ms > 8_000_000
