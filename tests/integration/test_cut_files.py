"""A file that is cut while it is served: requests that would read it get 503 with its name, others their answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import client_of, small_home, small_items, wait_until
from starlette.testclient import TestClient

from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return small_home(tmp_path_factory.mktemp("cut"))


@pytest.fixture(scope="module")
def client(home: Settings) -> Iterator[TestClient]:
    with client_of(home, look_s=0.05, held_references_mib=0) as client:
        yield client


def files_of(home: Settings, kind: str, name: str) -> dict[str, Path]:
    versions = artefact_stores(home)[kind]
    folder = versions.folder(name, versions.current(name) or "")
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def texts_of(item: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(reference["text"], reference.get("pair")) for reference in item["references"]]


def weights_of(item: dict[str, Any]) -> list[float]:
    return [reference.get("weight", 1.0) for reference in item["references"]]


@pytest.mark.parametrize("way", ["in place", "by rename"])
@pytest.mark.parametrize(
    ("kind", "name", "ending"),
    [("index", "chat", "vectors.faiss"), ("rater", "base", ".safetensors"), ("vectors", "glove", ".npy")],
)
def test_requests_that_would_read_a_cut_file_are_refused_with_its_name(
    home: Settings, client: TestClient, kind: str, name: str, ending: str, way: str
) -> None:
    items = {"items": [{key: item[key] for key in ("id", "utterance", "references")} for item in small_items()]}
    before = client.post("/v1/references", json=items).json()["items"]
    file, path = next(pair for pair in files_of(home, kind, name).items() if pair[0].endswith(ending))
    content, modified = path.read_bytes(), path.stat().st_mtime_ns
    os.truncate(path, 0)
    os.utime(path, ns=(modified + 1_000_000, modified + 1_000_000))

    refused = client.post("/v1/references", json=items)
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert str(file) in refused.json()["detail"]
    assert refused.headers["Retry-After"] == "60"
    plain = {"items": small_items(2), "metrics": ["bleu"]}
    assert client.post("/v1/scores", json=plain).status_code == 200
    serving = "rater base" if kind == "rater" else "index chat"
    wait_until(lambda: client.get("/readyz").json().get("missing") == [serving])
    assert client.get("/readyz").status_code == 503

    if way == "in place":
        path.write_bytes(content)
    else:
        (path.parent / "other").write_bytes(content)
        (path.parent / "other").replace(path)
        wait_until(lambda: client.get("/readyz").status_code == 200)
    after = client.post("/v1/references", json=items).json()["items"]
    for item, item_before in zip(after, before, strict=True):
        assert texts_of(item) == texts_of(item_before)
        assert weights_of(item) == pytest.approx(weights_of(item_before), abs=1e-6)  # other batches round otherwise
    wait_until(lambda: client.get("/readyz").json().get("troubles") == {})
