"""A rater on disk: what is saved comes back bit for bit, and what was damaged is refused by name."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from raters import tiny_model
from safetensors.torch import save_file

from refaug.core.artefacts.manifests import MANIFEST, describe_files, verify_files
from refaug.core.errors import Corrupt
from refaug.core.files import read_json, write_json
from refaug.core.records import Reference
from refaug.core.text.sentencepiece_tokenizer import SentencePieceTokenizer, open_sentencepiece
from refaug.core.text.tokenizer_training import TokenizerTraining, train_sentencepiece
from refaug.rater.network_folder import REPORT, TOKENIZER, WEIGHTS
from refaug.rater.nn.checkpoint import NNRater, open_rater, read_manifest, save_rater
from refaug.rater.nn.model import BiGRURater
from refaug.rater.nn.sizes import Features
from refaug.rater.rating import RatingRequest
from refaug.rater.rating_settings import RatingSettings

WORDS = ["bread", "butter", "cheese", "dinner", "for", "have", "is", "lunch", "nothing", "some", "there", "we", "what"]
TEXTS = [" ".join(random.Random(number).choices(WORDS, k=2 + number % 7)) for number in range(300)]
ASKED = [
    RatingRequest(
        utterance=TEXTS[at],
        golds=(TEXTS[at + 1], TEXTS[at + 2]),
        candidates=(Reference(text=TEXTS[at + 3]), Reference(text=TEXTS[at + 4], utterance=TEXTS[at + 5])),
    )
    for at in range(0, 60, 6)
]
EVERY_WAY = [
    RatingSettings(combine="first"),
    RatingSettings(combine="mean", calibrated=True),
    RatingSettings(combine="confident", calibrated=True),
]


def trained(path: Path, texts: list[str]) -> SentencePieceTokenizer:
    made = train_sentencepiece(texts, path, TokenizerTraining(vocab_size=40, at_most=True))
    return open_sentencepiece(made.path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencePieceTokenizer:
    return trained(tmp_path_factory.mktemp("tokenizer") / "some.model", TEXTS)


@pytest.fixture(scope="module")
def model(tokenizer: SentencePieceTokenizer) -> BiGRURater:
    return tiny_model(tokenizer.vocab_size)


def save(folder: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer, **more: Any) -> str:
    settings: dict[str, Any] = {
        "temperature": 1.75,
        "languages": ["en"],
        "report": {"auc": 0.75},
        "details": {"seconds": 3},
    }
    return save_rater(folder, model, tokenizer, **{**settings, **more})


@pytest.fixture
def folder(tmp_path: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer) -> Path:
    save(tmp_path / "rater", model, tokenizer)
    return tmp_path / "rater"


# There and back


def test_a_saved_rater_gives_the_same_ratings_bit_for_bit(
    folder: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer
) -> None:
    before, after = NNRater(model, tokenizer, temperature=1.75), open_rater(folder, spec="tiny@1", threads=1)
    for settings in EVERY_WAY:
        ratings = before.rate(ASKED, settings)
        assert after.rate(ASKED, settings) == ratings
        assert len({rating for own in ratings for rating in own}) == 20
    assert after.spec == "tiny@1"
    assert after.temperature == 1.75
    assert not after.model.training


def test_a_saved_rater_has_the_same_weights_and_the_same_tokenizer(
    folder: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer
) -> None:
    found = open_rater(folder)
    assert found.model.config == model.config
    weights = found.model.state_dict()
    assert list(weights) == list(model.state_dict())
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert found.tokenizer.sha256 == tokenizer.sha256
    assert found.tokenizer.path == folder / TOKENIZER


def test_a_rater_that_was_opened_and_saved_again_is_the_same_rater(folder: Path, tmp_path: Path) -> None:
    found = open_rater(folder)
    name = save(tmp_path / "again", found.model, found.tokenizer)
    assert name == read_manifest(folder).id
    for file in (WEIGHTS, TOKENIZER):
        assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()


def test_the_manifest_says_what_was_saved(folder: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer) -> None:
    stored = read_manifest(folder)
    assert stored.config == model.config
    assert stored.tokenizer == tokenizer.sha256
    assert (stored.temperature, stored.languages, stored.details) == (1.75, ("en",), {"seconds": 3})
    assert read_json(folder / REPORT) == {"auc": 0.75}
    manifest = read_json(folder / MANIFEST)
    assert (manifest["kind"], manifest["format_version"], manifest["id"]) == ("rater", 1, stored.id)
    assert manifest["files"] == describe_files(folder, [WEIGHTS, TOKENIZER, REPORT])
    assert sorted(path.name for path in folder.iterdir()) == sorted([WEIGHTS, TOKENIZER, REPORT, MANIFEST])
    verify_files(folder, manifest)


def test_files_that_lie_beside_are_named_in_the_manifest_and_leave_the_id(
    tmp_path: Path, folder: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "curves.json").write_text("{}")
    name = save(beside, model, tokenizer, beside=["curves.json"])
    assert name == read_manifest(folder).id
    assert read_json(beside / MANIFEST)["files"] == describe_files(beside, [WEIGHTS, TOKENIZER, REPORT, "curves.json"])


def test_the_id_is_the_same_for_the_same_content_and_another_for_any_other(
    tmp_path: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer
) -> None:
    places = (tmp_path / str(number) for number in itertools.count())
    name = save(next(places), model, tokenizer)
    assert name == save(next(places), tiny_model(tokenizer.vocab_size), tokenizer)
    assert name == save(next(places), model, tokenizer, languages=["de"], report={}, details={"at": "another time"})
    others = [
        save(next(places), tiny_model(tokenizer.vocab_size, seed=2), tokenizer),
        save(next(places), tiny_model(tokenizer.vocab_size, max_tokens=17), tokenizer),  # the same weights
        save(next(places), model, tokenizer, temperature=1.5),
        save(next(places), model, trained(tmp_path / "other.model", TEXTS[:200])),
    ]
    assert len({name, *others}) == 5


@pytest.mark.parametrize("features", ["texts", "products"])
def test_what_a_rater_judges_is_saved_with_it(
    tmp_path: Path, model: BiGRURater, tokenizer: SentencePieceTokenizer, features: Features
) -> None:
    torch.manual_seed(3)
    other = BiGRURater(replace(model.config, features=features))
    save(tmp_path / "other", other, tokenizer)
    written: Any = read_json(tmp_path / "other" / MANIFEST)
    assert written["config"]["features"] == features
    found = open_rater(tmp_path / "other")
    assert found.model.config == other.config
    assert found.rate(ASKED, EVERY_WAY[0]) == NNRater(other, tokenizer, temperature=1.75).rate(ASKED, EVERY_WAY[0])


# Damage


def refusal(folder: Path) -> Corrupt:
    """What a damaged rater is refused with: one line and a remedy."""
    with pytest.raises(Corrupt) as caught:
        open_rater(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return caught.value


def described_anew(folder: Path, **changes: object) -> None:
    """Let the manifest say what the files are like now, so that their sizes give nothing away."""
    manifest = read_json(folder / MANIFEST)
    write_json(
        folder / MANIFEST, {**manifest, "files": describe_files(folder, [WEIGHTS, TOKENIZER, REPORT]), **changes}
    )


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER, REPORT])
@pytest.mark.parametrize(
    ("damage", "said"),
    [(truncate, "bytes; the manifest says"), (lengthen, "bytes; the manifest says"), (Path.unlink, "is missing")],
)
def test_a_file_that_is_missing_or_of_another_size_is_named(
    folder: Path, file: str, damage: Callable[[Path], None], said: str
) -> None:
    damage(folder / file)
    error = refusal(folder)
    assert error.message.startswith(f"{folder / file} ")
    assert said in error.message


def test_weights_of_a_network_of_another_size_are_refused(folder: Path, tokenizer: SentencePieceTokenizer) -> None:
    other = tiny_model(tokenizer.vocab_size, hidden=4).state_dict()
    save_file(dict(other), folder / WEIGHTS)
    assert refusal(folder).message.startswith(f"{folder / WEIGHTS} has ")
    described_anew(folder)
    error = refusal(folder)
    assert error.message.startswith(f"{folder / WEIGHTS} does not hold this rater's weights: ")
    assert "last.weight" not in error.message  # of that size in both
    assert "reader.weight_hh_l0" in error.message


@pytest.mark.parametrize("change", ["fewer", "more"])
def test_weights_with_other_names_are_refused(folder: Path, model: BiGRURater, change: str) -> None:
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if change == "fewer":
        del weights["last.bias"]
    else:
        weights["second.bias"] = torch.zeros(2)
    save_file(weights, folder / WEIGHTS)
    described_anew(folder)
    error = refusal(folder)
    assert error.message.startswith(f"{folder / WEIGHTS} does not hold this rater's weights: ")
    assert {"fewer": "last.bias", "more": "second.bias"}[change] in error.message


@pytest.mark.parametrize("damage", ["the header", "everything", "the end"])
def test_weights_that_are_no_weights_are_refused(folder: Path, damage: str) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    if damage == "the header":
        data[8:16] = b"\xff" * 8
    elif damage == "everything":
        data = bytearray(b"\x80\x04pickle" * (len(data) // 8))
    else:
        del data[-100:]
    (folder / WEIGHTS).write_bytes(data)
    described_anew(folder)
    assert refusal(folder).message.startswith(f"{folder / WEIGHTS} cannot be read: ")


def test_another_tokenizer_in_its_place_is_refused(
    folder: Path, tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    other = trained(tmp_path / "other.model", TEXTS[:200])
    assert other.sha256 != tokenizer.sha256
    (folder / TOKENIZER).write_bytes(other.path.read_bytes())
    described_anew(folder)
    assert refusal(folder).message == (
        f"{folder / TOKENIZER} is {other.sha256[:12]}; the rater was trained with {tokenizer.sha256[:12]}"
    )


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER])
def test_a_file_of_the_same_size_with_one_other_byte_is_refused(folder: Path, file: str) -> None:
    data = bytearray((folder / file).read_bytes())
    data[-1] ^= 1
    (folder / file).write_bytes(data)
    error = refusal(folder)
    assert error.message.startswith(f"{folder / file} has SHA-256 ")


@pytest.mark.parametrize("change", [{"temperature": 1.5}, {"config": {"max_tokens": 4}}, {"id": "0" * 64}])
def test_what_decides_over_ratings_cannot_change_under_the_same_id(folder: Path, change: dict[str, Any]) -> None:
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    before = manifest["id"]
    if "config" in change:
        change = {"config": {**manifest["config"], **change["config"]}}
    write_json(folder / MANIFEST, {**manifest, **change})
    error = refusal(folder)
    assert error.message.startswith(f"{folder / MANIFEST} was altered: it says {change.get('id', before)[:12]}, ")


def test_files_that_the_manifest_does_not_name_are_not_read(folder: Path) -> None:
    manifest: dict[str, Any] = read_json(folder / MANIFEST)
    del manifest["files"][WEIGHTS]
    write_json(folder / MANIFEST, manifest)
    assert refusal(folder).message == f"{folder / MANIFEST} does not name {WEIGHTS} and {TOKENIZER}"


@pytest.mark.parametrize("size", ["vocabulary", "embedding", "hidden", "width", "layers", "max_tokens"])
def test_a_network_that_nobody_could_have_trained_is_not_built(folder: Path, size: str) -> None:
    described_anew(folder, config={**read_manifest(folder).config.__dict__, size: 2**62})
    assert all(str(fact) in refusal(folder).message for fact in (size, 2**62))


def test_a_tokenizer_that_is_none_is_refused(folder: Path) -> None:
    (folder / TOKENIZER).write_bytes(b"\xff" * (folder / TOKENIZER).stat().st_size)
    assert str(folder / TOKENIZER) in refusal(folder).message


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ({"kind": "index"}, "rater", "restore it"),
        ({"kind": None}, "rater", "restore it"),
        ({"format_version": 2}, "has format 2; this refaug reads up to 1", "upgrade refaug"),
        ({"format_version": "1"}, "rater", "restore it"),
        ({"temperature": None}, "lacks what a rater needs", "restore it"),
        ({"temperature": "hot"}, "lacks what a rater needs", "restore it"),
        ({"temperature": 0.0}, "", "restore it"),
        ({"config": []}, "lacks what a rater needs", "restore it"),
        ({"config": {"heads": 8}}, "lacks what a rater needs", "restore it"),
        ({"config": {"hidden": "8"}}, "lacks what a rater needs", "restore it"),
        ({"config": {"hidden": 0}}, "", "restore it"),
        ({"config": {"hidden": 8.5}}, "", "restore it"),
        ({"config": {"features": "sums"}}, "sums", "restore it"),
        ({"config": {"features": None}}, "a rater's features are None", "restore it"),
        ({"languages": None}, "lacks what a rater needs", "restore it"),
        ({"details": 3}, "lacks what a rater needs", "restore it"),
        ({"details": {"examples": None}}, "lacks what a rater needs: examples None", "restore it"),
        ({"details": {"examples": ["noise"]}}, "lacks what a rater needs: examples ['noise']", "restore it"),
        ({"files": None}, "names no files", "restore it"),
    ],
)
def test_a_manifest_that_is_not_a_raters_is_refused(
    folder: Path, change: dict[str, object], said: str, remedy: str
) -> None:
    write_json(folder / MANIFEST, {**read_json(folder / MANIFEST), **change})
    error = refusal(folder)
    assert error.message.startswith(f"{folder / MANIFEST} ")
    assert said in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize("key", ["id", "config", "tokenizer", "temperature", "languages", "details"])
def test_a_manifest_that_lacks_something_is_refused_with_what_it_lacks(folder: Path, key: str) -> None:
    manifest = read_json(folder / MANIFEST)
    del manifest[key]
    write_json(folder / MANIFEST, manifest)
    assert refusal(folder).message == f"{folder / MANIFEST} lacks what a rater needs: '{key}'"


@pytest.mark.parametrize(
    "other",
    [
        {"vocabulary": 50},
        {"embedding": 9},
        {"hidden": 16},
        {"width": 8},
        {"layers": 1},
        {"layers": 3},
        {"features": "products"},
    ],
)
def test_a_config_with_other_sizes_than_the_weights_is_refused(
    folder: Path, model: BiGRURater, other: dict[str, object]
) -> None:
    described_anew(folder, config={**asdict(model.config), **other})
    assert refusal(folder).message.startswith(f"{folder / WEIGHTS} does not hold this rater's weights: ")
