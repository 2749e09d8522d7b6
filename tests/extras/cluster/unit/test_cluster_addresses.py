"""Addresses of clusters, and what is said where there is none: nothing here needs Ray."""

from __future__ import annotations

import errno
import os
import socket
import sys
from types import ModuleType

import pytest
from refusals import refusing

from refaug.core.clusters import require_address, require_reachable
from refaug.core.errors import BadInput, Conflict, Corrupt, MissingPart, NoAccess, StorageFull, Unavailable, Usage
from refaug.extras.cluster.calls import Failure, brought_home, call, name_of
from refaug.extras.cluster.connection import connect
from refaug.extras.cluster.replicas import NoReplica


@pytest.mark.parametrize("address", ["auto", "local", "head:6379", "10.0.0.1:6379", "[::1]:6379", "a.b-c.org:1"])
def test_addresses_of_clusters(address):
    assert require_address(address) == address


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("ray://head:10001", "Client protocol"),
        ("ray://head:10001", "--address"),
        ("ray://head:10001", "--dashboard-host"),
        ("http://head:8265", "--address"),
        ("http://head:8265", "--dashboard-host"),
        ("head", "HOST:PORT"),
        ("head:70000", "HOST:PORT"),
        ("head:0", "HOST:PORT"),
        ("", "HOST:PORT"),
        ("head:6379 --evil", "HOST:PORT"),
    ],
)
def test_other_addresses_are_refused_with_what_would_be_right(address, remedy):
    with pytest.raises(Usage) as refused:
        require_address(address)
    assert remedy in refused.value.remedy


def test_an_address_where_nothing_listens_is_unavailable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with refusing(Unavailable, address) as refused:
            require_reachable(address)
    assert refused.value.remedy.startswith("use the address that ray start --head printed")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPart) as refused, connect("auto"):
        pass
    assert "refaug[cluster]" in refused.value.remedy


def test_a_ray_that_was_imported_without_tokens_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with refusing(Usage) as refused, connect("auto"):
        pass
    assert "RAY_AUTH_MODE" in refused.value.remedy
    assert "RAY_AUTH_MODE" not in os.environ


def refuse(reason):
    raise Conflict(reason, remedy="another one")


def test_errors_of_calls_come_back_as_they_were(monkeypatch):
    monkeypatch.setattr("refaug.extras.cluster.connection.refuse", refuse, raising=False)
    failure = call("refaug.extras.cluster.connection:refuse", {"reason": "taken"})
    assert failure == Failure(kind="Conflict", message="taken", remedy="another one")
    with pytest.raises(Conflict) as again:
        failure.raise_again()
    assert (again.value.message, again.value.remedy) == ("taken", "another one")


def test_an_error_of_another_module_comes_back_as_the_nearest_kind(monkeypatch):
    def refuse():
        raise NoReplica("shard 1 has no process that answers", remedy="ask again")

    monkeypatch.setattr("refaug.extras.cluster.connection.refuse", refuse, raising=False)
    with pytest.raises(Unavailable) as again:
        call("refaug.extras.cluster.connection:refuse", {}).raise_again()
    assert (type(again.value), again.value.exit_code, again.value.status) == (Unavailable, 4, 503)
    assert again.value.message == "shard 1 has no process that answers"


def test_an_error_that_another_machine_may_not_have_names_the_machine():
    def refuse_with(kind):
        def refuse():
            raise kind("table.arrow is wrong", remedy="right it")

        return brought_home(refuse, "refuse")

    here = f"on {socket.gethostname()}: table.arrow is wrong"
    for kind in (Corrupt, NoAccess, StorageFull, Unavailable):
        assert refuse_with(kind) == Failure(kind=kind.__name__, message=here, remedy="right it")
    for kind in (BadInput, Conflict, Usage):
        assert "table.arrow" in refuse_with(kind).message


def test_a_file_that_cannot_be_used_comes_back_as_such(tmp_path):
    missing = tmp_path / "none" / "table.arrow"
    failure = brought_home(missing.read_bytes, "read_bytes")
    assert (failure.kind, failure.message) == (
        "NoAccess",
        f"{missing} on {socket.gethostname()}: no such file or directory",
    )
    assert "on that machine" in failure.remedy


def test_an_error_of_the_system_without_a_file_stays_as_it_is():
    def refuse():
        raise ConnectionResetError(errno.ECONNRESET, "reset")

    with pytest.raises(ConnectionResetError):
        brought_home(refuse, "refuse")


def test_functions_are_called_by_their_names():
    assert name_of(require_address) == "refaug.core.clusters:require_address"
    assert call(name_of(require_address), {"address": "auto"}) == "auto"


def test_a_full_disk_in_a_call_comes_back_as_such(monkeypatch):
    def fill():
        raise OSError(errno.ENOSPC, "No space left on device", "/data/table.arrow")

    monkeypatch.setattr("refaug.extras.cluster.connection.fill", fill, raising=False)
    failure = call("refaug.extras.cluster.connection:fill", {})
    assert failure.kind == "StorageFull"
    assert failure.message == f"/data/table.arrow on {socket.gethostname()}: the disk is full"
