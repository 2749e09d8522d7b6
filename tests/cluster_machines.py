"""Machines of a local cluster of Ray, for its tests."""

from __future__ import annotations

_STORE = 100 << 20  # bytes of Ray's object store a machine


def start_head():
    """Start a head that takes no tasks."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  it reads the token when it is imported

    arguments = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE}
    return Cluster(initialize_head=True, head_node_args=arguments)


def add_machine(machines):
    """Start a machine of one core."""
    return machines.add_node(num_cpus=1, object_store_memory=_STORE)
