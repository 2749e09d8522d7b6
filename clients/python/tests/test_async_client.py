"""What only the client of asyncio has: loops, many requests at once; and that the other one is made of it."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import inspect
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from known_items import ITEMS
from scripted import Said, ok, scripted

from refaug_client import AsyncClient, Client, Usage
from refaug_client._async import access as async_access
from refaug_client._async import resources as async_resources
from refaug_client._sync import access, resources

FOLDER = Path(__file__).resolve().parents[1]


def load(name: str) -> Any:
    found = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_client_of_threads_is_what_the_other_one_gives() -> None:
    unasync = load("unasync")
    pairs = unasync.module_pairs()
    assert {source.name for source, _ in pairs} == {path.name for path in unasync.SOURCES.glob("[!_]*.py")}
    for source, generated in pairs:
        assert unasync.generate(source.read_text("utf-8"), source.name) == generated.read_text("utf-8"), generated.name
    text = (unasync.SOURCES / "client.py").read_text("utf-8")
    assert "async " not in unasync.generate(text)
    assert "def added(self) -> None:" in unasync.generate(text + "\n\nasync def added(self) -> None:\n    await it()\n")


def test_both_have_the_same_methods_with_the_same_arguments() -> None:
    modules = (async_resources, async_access)
    kinds = [AsyncClient, *(kind for module in modules for kind in vars(module).values() if inspect.isclass(kind))]
    ours = [kind for kind in kinds if kind.__module__.startswith("refaug_client._async")]
    assert len(ours) >= 8
    for kind in ours:
        name = kind.__name__
        twin = (
            Client
            if kind is AsyncClient
            else getattr(resources if kind.__module__.endswith("resources") else access, name.replace("Async", "", 1))
        )
        public = [one for one in vars(kind) if not one.startswith("_")]
        assert public == [one for one in vars(twin) if not one.startswith("_")], name
        for method in (one for one in public if inspect.isfunction(getattr(kind, one))):
            wanted = inspect.signature(getattr(kind, method)).parameters
            taken = inspect.signature(getattr(twin, method)).parameters
            assert list(wanted) == list(taken), f"{name}.{method}"
            assert [one.default for one in wanted.values()] == [one.default for one in taken.values()]


def test_every_public_method_says_its_job() -> None:
    for kind in (AsyncClient, Client):
        client = kind("http://127.0.0.1:1")
        package = type(client).__module__.rpartition(".")[0]
        parts = [client, *(one for one in vars(client).values() if type(one).__module__.startswith(package))]
        assert len(parts) >= 7
        for part in parts:
            for name, found in inspect.getmembers(part, callable):
                if not name.startswith("_"):
                    assert inspect.getdoc(found), f"{type(part).__name__}.{name}"
                    assert kind is AsyncClient or "await" not in (found.__doc__ or "")


def test_many_requests_at_once_give_each_its_own_answer(url: str, sets: dict[str, str]) -> None:
    async def found() -> tuple[list[Any], list[Any]]:
        async with AsyncClient(url, connections=4) as client:
            ask = [client.sets.score(sets["train"], [item["replies"]["a"]], items=[item["id"]]) for item in ITEMS]
            each = await asyncio.gather(*ask)
            together = await client.sets.score(sets["train"], [item["replies"]["a"] for item in ITEMS])
            return [one.replies for one in each], together.replies

    each, together = asyncio.run(found())
    assert each == [[one] for one in together]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # a loop that has ended closes nothing
def test_a_client_lives_through_several_loops(url: str) -> None:
    client = AsyncClient(url)

    async def asked() -> str:
        return (await client.health()).status

    assert [asyncio.run(asked()) for _ in range(3)] == ["ok"] * 3
    asyncio.run(client.close())
    with pytest.raises(Usage, match="closed"):
        asyncio.run(asked())
    gc.collect()


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


def test_a_pickled_client_is_one_of_its_own(url: str) -> None:
    again = pickle.loads(pickle.dumps(AsyncClient(url, timeout_s=7.0)))

    async def asked() -> str:
        async with again:
            return (await again.health()).status

    assert asyncio.run(asked()) == "ok"
    assert again._connection.settings.timeout_s == 7.0
