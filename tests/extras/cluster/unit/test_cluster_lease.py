"""When a process of a cluster ends that nothing calls any more, by a clock that the test sets."""

from __future__ import annotations

from refaug.extras.cluster.actors import CallLease


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def has_ended(lease):
    ends = []
    lease.end_if_over(lambda: ends.append("ended"))
    return ends == ["ended"]


def test_a_lease_runs_out_so_long_after_the_last_word():
    clock = Clock()
    lease = CallLease(60.0, clock)
    clock.now = 160.0
    assert not has_ended(lease)
    clock.now = 160.5
    assert has_ended(lease)
    lease.renew()
    assert not has_ended(lease)
    clock.now = 220.6
    assert has_ended(lease)


def test_a_lease_does_not_run_out_during_a_call_and_begins_anew_after_it():
    clock = Clock()
    lease = CallLease(60.0, clock)
    with lease.during_call():
        with lease.during_call():
            clock.now = 500.0
            assert not has_ended(lease)
        clock.now = 1_000.0
        assert not has_ended(lease)
    clock.now = 1_060.0
    assert not has_ended(lease)
    clock.now = 1_060.5
    assert has_ended(lease)
