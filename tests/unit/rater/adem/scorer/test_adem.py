"""An adem in memory and on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from adems import WordEncoder, rated_triples
from refusals import refusing

from refaug.core.errors import Corrupt, Usage
from refaug.rater.adem.scorer.adem import Adem, open_adem, read_adem_manifest, save_adem
from refaug.rater.adem.scorer.fitting import VectorCache, fit_scorer
from refaug.rater.adem.scorer.rated_triples import Form, Triple
from refaug.rater.adem.scorer.seen_texts import SeenTexts
from refaug.rater.adem.scorer.settings import ScorerSettings

ENCODER_ID = "f" * 64


@pytest.fixture(scope="module")
def adem() -> Adem:
    rated = rated_triples()
    vectors = VectorCache(WordEncoder(), "context").triple_vectors(rated.triples, Form.FULL)
    fitted = fit_scorer(rated, vectors, ScorerSettings(components=8, epochs=5))
    return Adem(fitted.scorer, WordEncoder(), state="context", seen=SeenTexts.of(rated.triples))


def _save(adem: Adem, folder: Path) -> str:
    return save_adem(
        folder,
        adem.scorer,
        state=adem.state,
        encoder=adem.encoder.spec,
        encoder_id=ENCODER_ID,
        seen=adem.seen,
        report={},
        details={"files": []},
    )


def test_a_saved_adem_gives_the_same_scores_to_the_last_bit(adem: Adem, tmp_path: Path) -> None:
    triples = rated_triples(seed=5).triples
    name = _save(adem, tmp_path / "adem")
    opened = open_adem(tmp_path / "adem", WordEncoder(), encoder_id=ENCODER_ID)
    assert read_adem_manifest(tmp_path / "adem").id == name
    assert np.array_equal(opened.score(triples), adem.score(triples))
    assert opened.seen == adem.seen


def test_the_same_adem_has_the_same_id(adem: Adem, tmp_path: Path) -> None:
    assert _save(adem, tmp_path / "first") == _save(adem, tmp_path / "second")


def test_another_encoder_is_refused(adem: Adem, tmp_path: Path) -> None:
    _save(adem, tmp_path / "adem")
    with refusing(Usage, "words@1"):
        open_adem(tmp_path / "adem", WordEncoder(), encoder_id="e" * 64)


def test_altered_files_are_refused(adem: Adem, tmp_path: Path) -> None:
    folder = tmp_path / "adem"
    _save(adem, folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(
        json.dumps({**manifest, "config": {**manifest["config"], "state": "utterance"}})
    )
    with pytest.raises(Corrupt):
        open_adem(folder, WordEncoder(), encoder_id=ENCODER_ID)
    _save(adem, folder)
    content = bytearray((folder / "seen.bin").read_bytes())
    content[0] ^= 1
    (folder / "seen.bin").write_bytes(content)
    with refusing(Corrupt, "seen.bin"):
        open_adem(folder, WordEncoder(), encoder_id=ENCODER_ID)


def test_an_empty_reply_has_the_least_score_and_is_not_encoded(adem: Adem) -> None:
    encoder = WordEncoder()
    asked = Adem(adem.scorer, encoder, state="context")
    scores = asked.score([Triple(context=("a", "b"), reference="c", reply="  ")])
    assert scores.tolist() == [1.0]
    assert encoder.calls == []
