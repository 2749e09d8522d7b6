"""What both clients make of one definition of a method; and what only asyncio has: loops, many requests at once."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import pydoc
import threading
import typing
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kinds import Opened
from known_items import ITEMS
from refusals import refusing
from scripted import Said, ok, scripted

from refaug_client import AsyncClient, Client, ReferenceSet, TimedOut, Usage
from refaug_client._api.methods import Resource


def methods(client: Any) -> Iterator[tuple[str, Any]]:
    """The public methods of a client and of its parts, as they are bound."""
    for part in (client, *(one for one in vars(client).values() if isinstance(one, Resource))):
        for name, method in inspect.getmembers(part, inspect.ismethod):
            if not name.startswith("_"):
                yield f"{type(part).__name__}.{name}".removeprefix("Async"), method


def test_both_have_the_same_methods_with_the_same_arguments_and_docstrings() -> None:
    ours, theirs = dict(methods(AsyncClient("http://127.0.0.1:1"))), dict(methods(Client("http://127.0.0.1:1")))
    assert len(ours) > 100
    assert set(theirs) - set(ours) == {"Client.reward"}
    assert set(ours) - set(theirs) == set()
    for name, method in ours.items():
        assert inspect.signature(method) == inspect.signature(theirs[name]), name
        assert inspect.getdoc(method), name
        assert inspect.getdoc(method) == inspect.getdoc(theirs[name]), name
        assert method.__name__ == name.rpartition(".")[2]


def test_a_method_shows_its_arguments_and_what_it_returns() -> None:
    sets = Client("http://127.0.0.1:1").sets
    assert str(inspect.signature(sets.get)) == "(id: 'str') -> 'ReferenceSet'"
    assert "timeout_s" not in inspect.signature(sets.freeze).parameters
    assert typing.get_type_hints(sets.get)["return"] is ReferenceSet
    page = pydoc.plain(pydoc.render_doc(sets))
    for name in ("derive", "download", "freeze", "get", "list", "score", "withdraw"):
        assert f"{name}(self, " in page
    assert "Return sets by id, withdrawn ones too" in page


def test_frameworks_see_which_methods_are_awaited() -> None:
    for name, method in methods(AsyncClient("http://127.0.0.1:1")):
        is_generator = name.endswith(("_iter", ".events", ".records"))
        is_plain = is_generator or name in ("Client.local", "Client.scorer", "Client.with_options")
        assert inspect.iscoroutinefunction(method) != is_plain, name
    assert not any(inspect.iscoroutinefunction(method) for _, method in methods(Client("http://127.0.0.1:1")))


def test_a_method_can_be_called_by_its_class_overridden_and_replaced(url: str) -> None:
    class Ours(Client):
        def health(self) -> Any:
            return [super().health().status]

    with Ours(url) as client:
        assert client.health() == ["ok"]
        assert Client.health(client).status == "ok"
        client.sets.get = lambda id: id  # type: ignore[assignment,misc]  # noqa: A006
        assert client.sets.get("x") == "x"  # type: ignore[comparison-overlap]

    with Client(url) as client, pickle.loads(pickle.dumps(client.health)).__self__ as again:
        assert again.health() == client.health()

    async def asked() -> str:
        async with AsyncClient(url) as asynchronous:
            return (await AsyncClient.health(asynchronous)).status

    assert asyncio.run(asked()) == "ok"


def test_what_is_wrong_is_raised_where_it_is_awaited() -> None:
    client = AsyncClient("http://127.0.0.1:1")
    asking = client.score("no items")
    with refusing(Usage, "items"):
        asyncio.run(asking)  # type: ignore[arg-type]


def test_a_client_for_threads_works_in_a_thread_that_has_a_loop(url: str) -> None:
    async def asked() -> list[Any]:
        with Client(url) as client:
            rows = client.references_iter(ITEMS, batch=1)
            return [client.health().status, next(rows).id, client.score(ITEMS, metric="bleu", batch=2).signature]

    async def begun() -> Iterator[Any]:
        rows = client.references_iter(ITEMS, batch=1)
        next(rows)
        return iter(rows)

    assert asyncio.run(asked())[:2] == ["ok", ITEMS[0]["id"]]
    with Client(url) as client:  # the loop that ended has not ended the results
        assert len(list(asyncio.run(begun()))) == len(ITEMS) - 1


def test_input_that_is_awaited_is_for_asyncio() -> None:
    async def items() -> AsyncIterator[Any]:
        yield ITEMS[0]

    with Client("http://127.0.0.1:1") as client, refusing(Usage, "items"):
        client.references_iter(items())


def test_input_of_both_kinds_is_read_by_each_client_in_its_way(opened: Opened, url: str) -> None:
    ways: list[str] = []

    class Rows:
        def __iter__(self) -> Iterator[Any]:
            ways.append("threads")
            return iter(ITEMS)

        async def __aiter__(self) -> AsyncIterator[Any]:
            ways.append("asyncio")
            for item in ITEMS:
                yield item

    assert len(list(opened(url).references_iter(Rows(), batch=2))) == len(ITEMS)
    assert ways == [opened.kind]


# ── another time limit ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_with_another_time_limit_shares_the_connections() -> None:
    class Ours(Client):
        team = "a"

    with scripted(lambda asked: ok({"versions": {}, "items": []})) as server:
        client = Ours(server.url, timeout_s=7.0)
        client.team = "b"
        patient = client.with_options(timeout_s=600)
        for one in (client, patient, client, patient):
            one.references([])
        assert (type(patient), patient.team) == (Ours, "b")
        assert [asked.headers["x-timeout-s"] for asked in server.requests] == ["7.000", "600.000"] * 2
        assert server.connections == 1
        patient.close()
        with refusing(Usage, "closed"):
            client.references([])


def test_another_time_limit_holds_for_parts_batches_and_copies(opened: Opened) -> None:
    with scripted(lambda asked: Said(first=threading.Event())) as server:
        client = opened(server.url, retry=0).with_options(timeout_s=0.1)
        with refusing(TimedOut, "0.1"):
            client.sets.list()
        with refusing(TimedOut, "0.1"):
            list(client.references_iter(ITEMS, batch=1))
    again = pickle.loads(pickle.dumps(Client("http://127.0.0.1:1").with_options(timeout_s=3)))
    assert again._wire.settings.timeout_s == 3
    with refusing(Usage, "timeout_s"):
        opened("http://127.0.0.1:1").with_options(timeout_s=0)


# ── loops ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_that_is_given_up_leaves_the_client_usable() -> None:
    never = Said(first=threading.Event())

    async def asked() -> str:
        async with AsyncClient(server.url, connections=1) as client:
            task = asyncio.create_task(client.ready())
            await asyncio.get_running_loop().run_in_executor(None, server.until, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await client.health()).status

    with scripted([never, ok({"status": "ok", "version": "1"})]) as server:
        assert asyncio.run(asked()) == "ok"
