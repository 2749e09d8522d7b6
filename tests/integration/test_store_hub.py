"""Artefacts and frozen sets go through a repository of a hub, which is one on loopback here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hubs import LoopbackHub, loopback_hub
from indexes import add_vectors

from refaug.core.artefacts.manifests import MANIFEST
from refaug.indexer.index_folders import Places

STORE = "hf://datasets/someone/shared"
REPOSITORY = "datasets/someone/shared"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackHub]:
    with loopback_hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", "hf_secret_key")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield server


def test_a_version_goes_to_another_home_in_few_commits(hub: LoopbackHub, home_at: Any, tmp_path: Path) -> None:
    add_vectors(Places.under(tmp_path / "first"), "small", {"tea": (1, 0), "bus": (0, 1)})
    first, second = home_at(tmp_path / "first"), home_at(tmp_path / "second")
    pushed = first("artefacts", "push", "vectors", "small", "--store", STORE, "--json").json
    [version] = pushed["versions"]
    assert hub.is_private[REPOSITORY]
    assert len(hub.commits[REPOSITORY]) <= 4  # a claim, all files with the record, and the end of the claim
    assert sum(name.startswith("objects/") for name in hub.files[REPOSITORY]) == version["uploaded_files"]
    assert not any(name.startswith(("uploads/", "claims/")) for name in hub.files[REPOSITORY])
    again = first("artefacts", "push", "vectors", "small", "--store", STORE, "--json").json
    assert again["versions"][0]["uploaded_files"] == 0
    listed = second("artefacts", "list", "--store", STORE, "--json").json
    assert [(row["kind"], row["name"]) for row in listed["versions"]] == [("vectors", "small")]
    second("artefacts", "fetch", "vectors", "small", "--store", STORE, "--json")
    folder = Path("vectors") / "small" / version["version"]
    names = [path.name for path in sorted((tmp_path / "first" / folder).iterdir()) if path.is_file()]
    assert MANIFEST in names
    for name in names:
        assert (tmp_path / "second" / folder / name).read_bytes() == (tmp_path / "first" / folder / name).read_bytes()


def test_other_bytes_are_refused(hub: LoopbackHub, home_at: Any, tmp_path: Path) -> None:
    add_vectors(Places.under(tmp_path / "first"), "small", {"tea": (1, 0), "bus": (0, 1)})
    home_at(tmp_path / "first")("artefacts", "push", "vectors", "small", "--store", STORE)
    for name, body in hub.files[REPOSITORY].items():
        if name.startswith("objects/"):
            hub.files[REPOSITORY][name] = bytes(len(body))
    second = home_at(tmp_path / "second")
    assert second("artefacts", "fetch", "vectors", "small", "--store", STORE).code != 0
    assert not (tmp_path / "second" / "vectors" / "small" / "CURRENT").exists()


def test_a_frozen_set_goes_there_and_its_licence_is_said_first(hub: LoopbackHub, home_at: Any, tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    ids = ("gupta/1", "conture/1")
    first, second = home_at(tmp_path / "first"), home_at(tmp_path / "second")
    for name in ids:
        items.write_text(json.dumps({"id": name, "utterance": "What?", "references": ["tea please"]}) + "\n", "utf-8")
        frozen = first("sets", "freeze", items, "--purpose", "test", "--json").json
        pushed = first("artefacts", "push", "set", frozen["id"], "--store", STORE, "--json")
        assert ("texts of gupta" in pushed.err) == (name == "gupta/1")
        exported = first("artefacts", "export", "set", frozen["id"], tmp_path / "set.tar.zst")
        assert ("texts of gupta" in exported.err) == (name == "gupta/1")
        assert hub.files[REPOSITORY][f"sets/{frozen['id']}.tar.zst"] == (tmp_path / "set.tar.zst").read_bytes()
        fetched = second("artefacts", "fetch", "set", frozen["id"], "--store", STORE, "--json").json
        assert (fetched["id"], fetched["items"], fetched["was_there"]) == (frozen["id"], 1, False)
        assert second("sets", "verify", frozen["id"]).code == 0
    missing = second("artefacts", "fetch", "set", "f" * 12, "--store", STORE)
    assert missing.code != 0
    assert "not_found" in missing.err


def test_refusals_name_the_store_and_no_secret(hub: LoopbackHub, home_at: Any, tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    nothing = home("artefacts", "list", "--store", STORE)
    assert "[not_found]" in nothing.err
    assert STORE in nothing.err
    hub.refusal = 403
    refused = home("artefacts", "list", "--store", STORE)
    assert "HF_TOKEN" in refused.err
    assert "hf_secret_key" not in refused.err
    for location in ("hf://someone", "hf://datasets/someone", "hf://a/b/c"):
        assert "[usage]" in home("artefacts", "list", "--store", location).err
