"""An opened vhred: vectors that do not depend on their batch, and a folder that is checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refusing
from vhreds import SENTENCES, PlainVhred, tiny_vhred

from refaug.core.artefacts.manifests import MANIFEST
from refaug.core.errors import BadInput, Corrupt, Usage
from refaug.core.files import read_json, write_json
from refaug.rater.adem.vhred.artefact import Vhred, batches, read_vhred_manifest, save_vhred
from refaug.rater.adem.vhred.sizes import State

DIALOGUES = [tuple(SENTENCES[at : at + 1 + at % 3]) for at in range(0, 200, 3)]


@pytest.mark.parametrize("state", ["context", "utterance"])
def test_a_vector_is_the_state_after_the_last_turn(tmp_path: Path, state: State) -> None:
    vhred = tiny_vhred(tmp_path)
    vectors = vhred.encode(DIALOGUES[:4], state)
    plain = PlainVhred(vhred.network)
    for vector, dialogue in zip(vectors, DIALOGUES[:4], strict=True):
        states = plain.read([vhred.tokenizer.encode_ids_batch([turn])[0][:12] for turn in dialogue])
        expected = (states.contexts if state == "context" else states.utterances)[-1]
        assert vector == pytest.approx(expected, abs=1e-5)


def test_vectors_do_not_depend_on_what_is_encoded_with_them(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path)
    together = vhred.encode(DIALOGUES)
    alone = np.concatenate([vhred.encode([dialogue]) for dialogue in DIALOGUES])
    backwards = vhred.encode(DIALOGUES[::-1])[::-1]
    assert together.dtype == np.float32
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(together - backwards).max() < 1e-5


def test_equal_dialogues_have_equal_vectors_to_the_last_bit(tmp_path: Path) -> None:
    vectors = tiny_vhred(tmp_path).encode([DIALOGUES[5], DIALOGUES[1], DIALOGUES[5]])
    assert vectors[0].tolist() == vectors[2].tolist()


def test_only_the_last_turns_of_a_long_dialogue_are_read(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path, turns=2)
    long, short = vhred.encode([SENTENCES[:5], SENTENCES[3:5]])
    assert long == pytest.approx(short, abs=1e-6)


def test_no_dialogue_has_no_vector_and_an_empty_text_has_one(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path)
    assert vhred.encode([]).shape == (0, 6)
    assert np.isfinite(vhred.encode([[""]], "utterance")).all()
    with refusing(BadInput):
        vhred.encode([["i see"], []])
    with refusing(Usage, "last"):
        vhred.encode([["i see"]], "last")  # type: ignore[arg-type]


def test_a_saved_vhred_opens_with_the_same_vectors(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path, cell="random")
    name = save_vhred(tmp_path / "saved", vhred.network, vhred.tokenizer, languages=["en"], report={}, details={})
    opened = Vhred.open(tmp_path / "saved", spec="tiny@1#abc")
    assert (opened.id, opened.spec, opened.config) == (name, "tiny@1#abc", vhred.config)
    assert opened.encode(DIALOGUES).tolist() == vhred.encode(DIALOGUES).tolist()
    assert read_vhred_manifest(tmp_path / "saved").config.cell == "random"


def test_altered_weights_are_refused(tmp_path: Path) -> None:
    vhred = tiny_vhred(tmp_path)
    save_vhred(tmp_path / "saved", vhred.network, vhred.tokenizer, languages=["en"], report={}, details={})
    weights = tmp_path / "saved/weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with refusing(Corrupt, "weights.safetensors"):
        Vhred.open(tmp_path / "saved")


def test_long_texts_are_read_a_few_at_a_time() -> None:
    lengths = [5, 2_000, 10, 1_000, 1_000, 5]
    assert [part.tolist() for part in batches(lengths, 2)] == [[1], [3, 4], [2, 0], [5]]
    assert list(batches([], 2)) == []


@pytest.mark.parametrize("flag", ["are_heads_input", "is_emotion_positive"])
def test_a_manifest_whose_flag_is_a_text_is_corrupt(tmp_path: Path, flag: str) -> None:
    vhred, folder = tiny_vhred(tmp_path), tmp_path / "saved"
    save_vhred(folder, vhred.network, vhred.tokenizer, languages=["en"], report={}, details={})
    manifest = read_json(folder / MANIFEST)
    write_json(folder / MANIFEST, {**manifest, "config": {**manifest["config"], flag: "x"}})
    with refusing(Corrupt, flag, "'x'"):
        Vhred.open(folder)
