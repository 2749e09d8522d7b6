"""`refaug train vhred --network vhcr …` as users type it: a VHCR with heads, its report, its replies, its refusals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from encoders import write_bag_of_words
from integration.conftest import Home
from trainings import interrupting
from vhreds import SENTENCES

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.progress import Silent
from refaug.logs.ingest.ingest import ingest
from refaug.logs.ingest.order import IngestOrder
from refaug.rater.adem.teachers.meaning import FILE
from refaug.scoring.home.encoders import import_encoder

TINY = ("--preset", "small", "--steps", "4", "--round-steps", "2", "--batch", "8", "--threads", "1")
CONVERSATIONS = ("train", "vhred", "chat", *TINY, "--max-tokens", "12", "--network", "vhcr", "--turns", "4")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a log, a lexicon, an encoder, a trained VHCR with both heads, and a HRED."""
    folder = tmp_path_factory.mktemp("with-vhcrs")
    rng = np.random.default_rng(1)
    lines = [
        orjson.dumps({"id": str(number), "turns": rng.choice(SENTENCES, 2 + number % 4, replace=False).tolist()})
        for number in range(360)
    ]
    (folder / "chat.jsonl").write_bytes(b"\n".join(lines))
    home = folder / "home"
    ingest(IngestOrder(sources=(str(folder / "chat.jsonl"),), log="chat"), home / "logs", Silent())
    settings = Settings(home=home)
    write_bag_of_words(folder / "bag", 6, softmax=False)
    import_encoder(artefact_stores(settings)["encoder"], settings.cache, "bag", folder / "bag", licence="mit")
    (home / "words.tsv").write_text("see\tcalm\nwant\tkeen\nbuy\tkeen\nfind\tcalm\n", "utf-8")
    train = (*CONVERSATIONS, "--emotion", f"lexicon:{home / 'words.tsv'}", "--meaning", "bag")
    assert main(["--home", str(home), "--quiet", *train]) == 0
    hred = ("train", "vhred", "chat", *TINY, "--max-tokens", "12", "--network", "hred", "--name", "plain")
    assert main(["--home", str(home), "--quiet", *hred]) == 0
    return home


@pytest.fixture
def ready(home: Home, material: Path) -> Home:
    shutil.copytree(material, home.path)
    return home


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    with interrupting(monkeypatch) as at:
        yield at


def heads(home: Home) -> tuple[str, ...]:
    return ("--emotion", f"lexicon:{home.path / 'words.tsv'}", "--meaning", "bag")


def version(home: Home, number: int) -> Path:
    (folder,) = (home.path / "vhreds/chat").glob(f"*.{number}")
    return folder


def test_the_report_tells_each_variable_and_each_head_apart(ready: Home) -> None:
    shown = ready("artefacts", "show", "vhred", "chat", "--json").json
    report, config = shown["report"], shown["config"]
    assert (config["conversation"], config["emotion"], config["turns"]) == (16, 2, 4)
    for kl, state in (("kl", "latent"), ("kl_conversation", "latent_conversation")):
        assert report[state] == ("collapsed" if report[kl] < 0.1 else "used")
    assert 0 <= report["active_units"] <= 16
    assert 0 <= report["active_units_conversation"] <= 16
    dialogues = sum(report["dialogues"].values())
    assert (dialogues, sum(report["skipped_dialogues"].values())) == (270, 90)
    assert set(report["heads"]) == {"emotion", "meaning"}
    assert report["teachers"]["emotion"]["size"] == config["emotion"]
    assert report["teachers"]["meaning"]["size"] == config["meaning"]
    assert (version(ready, 1) / FILE).exists()
    assert "conversation" not in ready("artefacts", "show", "vhred", "plain", "--json").json["config"]


def test_a_stopped_training_resumes_to_the_same_bits_without_its_teachers(
    ready: Home, stopping: Callable[[int], None]
) -> None:
    stopping(3)
    assert ready(*CONVERSATIONS, *heads(ready), "--again").code == 5
    (ready.path / "words.tsv").unlink()
    resumed = ready("train", "resume", "vhred", "chat", "--json")
    assert resumed.code == 0, resumed.err
    first, second = ((version(ready, number) / "weights.safetensors").read_bytes() for number in (1, 2))
    assert first == second


def test_a_vhcr_replies_and_scores_a_context_of_one_turn(ready: Home) -> None:
    items = [
        {"id": str(number), "turns": SENTENCES[number : number + 1 + number], "replies": {"a": SENTENCES[9]}}
        for number in range(3)
    ]
    (ready.path / "items.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in items))
    for way in ("held", "each-reply"):
        bot = f"b=vhred:chat,max-tokens=5,conversation={way}"
        written = ready("bots", "reply", str(ready.path / "items.jsonl"), "--bot", bot)
        assert written.code == 0, written.err
        assert f"conversation:{way}" in written.err + written.out.replace('":"', ":")
    scored = ready("score", str(ready.path / "items.jsonl"), "-m", "likelihood:model=chat", "--draws", "0", "--json")
    assert scored.code == 0, scored.err
    refused = ready("bots", "reply", str(ready.path / "items.jsonl"), "--bot", "b=vhred:plain,conversation=held")
    assert (refused.code, "plain" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--network", "vhcr", "--latent", "none"), "Gaussian of each turn"),
        (("--network", "hred", "--latent", "8"), "latent"),
        (("--conversation", "8"), "conversation"),
        (("--sentence-drop", "0.5"), "sentence"),
        (("--emotion", "lexicon:nowhere.tsv"), "nowhere.tsv"),
        (("--emotion", "moods"), "moods"),
        (("--meaning", "gone"), "gone"),
        (("--meaning", "bag", "--cell", "random"), "random"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_before_any_work(
    ready: Home, options: tuple[str, ...], message: str
) -> None:
    refused = ready("train", "vhred", "chat", *TINY, "--name", "other", *options)
    assert refused.code in (2, 3, 4)
    assert message in refused.err
    assert not (ready.path / "vhreds/other").exists()


def test_dialogues_of_one_exchange_alone_make_no_vhcr(ready: Home, tmp_path: Path) -> None:
    lines = [orjson.dumps({"id": str(at), "turns": [SENTENCES[at % 240], SENTENCES[at // 2]]}) for at in range(300)]
    (tmp_path / "short.jsonl").write_bytes(b"\n".join(lines))
    ingest(IngestOrder(sources=(str(tmp_path / "short.jsonl"),), log="short"), ready.path / "logs", Silent())
    refused = ready("train", "vhred", "short", *TINY, "--network", "vhcr")
    assert (refused.code, "two turns" in refused.err) == (3, True)
