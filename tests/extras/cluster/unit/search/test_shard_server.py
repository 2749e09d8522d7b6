"""A shard in its process: nothing is answered of a copy that was written to, whatever the question reads."""

from __future__ import annotations

import os
from contextlib import closing

import numpy as np
import pytest
from indexes import build, home_of, pairs_of
from refusals import refusing

from refaug.core.artefacts.manifests import MANIFEST, named_files
from refaug.core.errors import Corrupt, Unavailable
from refaug.core.files import read_json
from refaug.extras.cluster.search.node_copies import VARIABLE, CopySource, collect_copies
from refaug.extras.cluster.search.shard_server import (
    MESSAGES,
    IndexSizes,
    NumberedSegment,
    ShardFiles,
    ShardServer,
)
from refaug.indexer.manifest import IndexManifest, software

PAIRS = (("good morning", "morning all"), ("good night", "sleep well"), ("hello", "hi there"))
WORDS = {"good": [1.0, 0.0], "morning": [0.0, 1.0], "night": [1.0, 1.0], "hello": [0.5, 0.1]}


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    places = home_of(tmp_path_factory.mktemp("shard") / "home", pairs_of(*PAIRS), WORDS)
    return places.indexes.folder("chat", build(places, "chat"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "copies"))
    return tmp_path / "copies"


@pytest.fixture
def files(version):
    manifest = IndexManifest.read(version)
    return ShardFiles(
        name="chat-0",
        segments=tuple(NumberedSegment(number=at, info=info) for at, info in enumerate(manifest.segments)),
        files=tuple(named_files(read_json(version / MANIFEST), version / MANIFEST)),
        source=CopySource(folder=version, store=None),
    )


@pytest.fixture
def server(files, cache):
    assert cache
    sizes = IndexSizes(words=1_000, logs=1, dimensions=2)
    with closing(ShardServer(files, None, sizes, software())) as server:
        yield server


ROWS = np.arange(len(PAIRS))
QUESTIONS = {
    "texts": lambda server: MESSAGES.unpack(server.answer(MESSAGES.pack(("texts", [0], [np.stack([ROWS] * 3)]))))[0],
    "hashes": lambda server: MESSAGES.unpack(server.answer(MESSAGES.pack(("hashes", [0], [ROWS]))))[0][0].tolist(),
    "utterance": lambda server: server.utterance(0, 1),
    "first pair": lambda server: server.first_pair(),
}


def file_of(cache, name):
    """The one file of a segment with this name."""
    return next(path for path in (cache / "held" / "chat-0").rglob(name))


def damage(path):
    """Write other bytes in place, which the mapping of the process shows."""
    with path.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"##")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ["pairs.arrow", "utterances.arrow", "utterance_sha.npy"])
def test_nothing_is_answered_of_a_copy_that_was_written_to(server, cache, question, name):
    before = QUESTIONS[question](server)
    damage(file_of(cache, name))
    with refusing(Unavailable):
        QUESTIONS[question](server)
    server.probe()
    assert QUESTIONS[question](server) == before


def test_a_shard_that_cannot_be_opened_holds_nothing(files, cache):
    with pytest.raises(Corrupt) as refused:
        ShardServer(files, None, IndexSizes(words=0, logs=1, dimensions=2), software())
    assert collect_copies(cache, []) == [], refused.value
    assert not list((cache / "held").iterdir())
