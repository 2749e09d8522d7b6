"""Make the golden home anew: `python tests/goldens/home.py`, only where no home of before can be opened any more.

home.tar.zst holds something of everything that a home may hold, as small as it can be. It is made by commands of the
code as it was that day; that later code opens it is half of what goldens test.
"""

from __future__ import annotations

import json
import random
import shlex
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import zstandard

ROOT: Final = Path(__file__).resolve().parents[2]
ARCHIVE: Final = Path(__file__).parent / "home.tar.zst"
DAY: Final = date(2026, 1, 2)  # of all versions: those that calls make are of other days
WORDS: Final = ("tea", "milk", "train", "late", "great", "awful", "haha", "what", "yes", "no")
TRAINING: Final = "--preset small --epochs 2 --max-tokens 32 --threads 1"

# ── the commands that make it, in their order ─────────────────────────────────────────────────────────────────────────

BEFORE_THE_SERVICE: Final = f"""
log demo --dialogues 260 --noise 0.03 --items 24 --output first.jsonl --items-output items.jsonl
log demo --dialogues 60 --seed 2 --items 24 --output second.jsonl --items-output others.jsonl
log ingest first.jsonl --log demo --language en --workers 0
train vectors demo --dimensions 16 --epochs 5 --min-count 3 --deterministic
train vectors demo --name small --dimensions 4 --epochs 2 --min-count 5 --deterministic
train vectors demo --name small --dimensions 6 --epochs 2 --min-count 5 --deterministic
index build demo --threads 1 --check-queries 50
log ingest second.jsonl --log demo --language en --workers 0
index update demo --threads 1
index delete demo --dialogue demo/000004 --threads 1
index build demo --name coded --encoder encoder --no-bm25 --threads 1 --check-queries 0
log ingest talk.jsonl --log talk --language en --workers 0
train rater talk --name demo {TRAINING}
train rater talk --name second {TRAINING} --seed 2
train rater talk --name second {TRAINING} --seed 3
train ruber talk --name demo {TRAINING}
train ruber talk --name demo {TRAINING} --seed 2
train vhred talk --name demo --preset small --cell random --threads 1
train adem items.jsonl others.jsonl --encoder demo --name demo --components 4 --threads 1
train adem items.jsonl others.jsonl --encoder demo --name demo --components 3 --threads 1
train judge-fit items.jsonl others.jsonl --name demo --metric bleu --metric chrf --threads 1
train judge-fit items.jsonl others.jsonl --name demo --metric bleu --metric chrf --length held --threads 1
train hybrid talks.jsonl --name demo --vectors demo --target quality --draws 100
train hybrid talks.jsonl --name demo --vectors demo --target quality --draws 100 --seed 2
bots add nearest nearest.toml
bots add fixed fixed.toml
bots play nearest fixed --conversations 6 --turns 4 --start log:demo --name demo
bots play nearest fixed --conversations 6 --turns 4 --start log:demo --name demo --seed 2
score metrics baseline upsilon-chrf --index demo --pairs 100
sets freeze items.jsonl --index demo --rater demo -k 5 --parrot rated --purpose test --threads 1
sets freeze items.jsonl --index demo --rater demo -k 2 --purpose train --threads 1
sets score {{set}} items.jsonl --metric upsilon-bleu --metric chrf --record first --draws 20
sets score {{set}} others.jsonl --metric upsilon-bleu --metric chrf --record second --draws 20
admin keys create ann --scope admin
admin keys create bob --scope read --rate 5
admin schedules put nightly --cron "0 3 * * *" --order order.json --no-enabled
admin jobs start gc --json-order order.json
admin jobs work --once
admin jobs start gc --json-order waiting.json
studies new first protocol.json
studies open first
studies new draft judging.json --items judged.jsonl
""".strip().splitlines()

FILES: Final[dict[str, Any]] = {
    "nearest.toml": 'kind = "retrieval"\nindex = "demo"\nmode = "bm25-utterance"\n',
    "fixed.toml": 'kind = "replay"\nreplies = ["I see.", "Tell me more.", "Why is that?"]\ncycle = true\n',
    "order.json": {"kind": "gc", "artefact": "index", "name": "demo", "keep": 5},
    "waiting.json": {"kind": "gc", "artefact": "rater", "name": "second", "keep": 5},
    "protocol.json": {
        "kind": "chat",
        "title": "Talk with a bot",
        "bots": ["fixed", "nearest"],
        "min_turns": 1,
        "form": {
            "name": "short",
            "questions": [{"id": "quality", "type": "likert", "text": "How good was it?", "least": 1, "most": 7}],
        },
        "consent": "We store what you write. You may stop at any time.",
    },
    "judging.json": {"kind": "rate-reply", "consent": "We store your answers."},
}
JUDGED: Final = (
    {"id": "d1", "turns": ["Where can I buy tea?"], "replies": {"a": "At the market.", "b": "The bus is blue."}},
    {"id": "d2", "turns": ["Do you like tea?"], "replies": {"a": "Yes, with milk.", "b": "No."}},
)


def write_files(folder: Path) -> None:
    """Write what the commands read."""
    from encoders import write_encoder  # noqa: PLC0415
    from trainings import talk  # noqa: PLC0415

    for name, content in FILES.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    (folder / "judged.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in JUDGED))
    talks = (conversation(number) for number in range(60))
    (folder / "talks.jsonl").write_text("".join(f"{json.dumps(talk)}\n" for talk in talks))
    talk(folder / "talk.jsonl", 240)
    (folder / "encoder").mkdir()
    write_encoder(folder / "encoder")


def conversation(number: int) -> dict[str, Any]:
    """Return a conversation whose rating follows how kind the person's words are, with a bot that makes them so."""
    rng, bot = random.Random(number), number % 6
    turns = []
    for position in range(4):
        kind = ["great"] * bot if position % 2 == 0 else []
        words = [*rng.choices(WORDS, k=5), *rng.sample(kind, rng.randint(0, len(kind)))]
        turns.append({"role": ("participant", "bot")[position % 2], "text": " ".join(words)})
    kindness = sum(turn["text"].split().count("great") for turn in turns[::2])
    return {
        "id": f"c{number}",
        "participant": f"p{number // 6}",
        "bot": f"b{bot}",
        "turns": turns,
        "ratings": {"quality": min(100, 5 * kindness + rng.randint(0, 10)), "dull": rng.randint(0, 100)},
        "scale": [0, 100],
        "reversed": ["dull"],
    }


class ThatDay(datetime):
    """A clock whose day is that of the golden versions."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> ThatDay:
        """Return the start of that day."""
        return cls(DAY.year, DAY.month, DAY.day, tzinfo=tz)


@contextmanager
def tiny_networks() -> Iterator[None]:
    """Let the preset `small` mean networks of a few kilobytes, and all versions be of one day."""
    from refaug.rater.adem.vhred import sizes  # noqa: PLC0415
    from refaug.rater.nn import build as nn  # noqa: PLC0415
    from refaug.rater.ruber import build as ruber  # noqa: PLC0415

    small: dict[str, Any] = {"pieces": 400}
    network = {"embedding": 16, "hidden": 16, "width": 32, **small}
    vhred = {"embedding": 8, "utterance": 8, "context": 12, "latent": 4, "decoder": 12, **small}
    with (
        patch.dict(nn.PRESETS, small=replace(nn.PRESETS["small"], **network)),
        patch.dict(ruber.PRESETS, small=replace(ruber.PRESETS["small"], **network)),
        patch.dict(sizes.PRESETS, small=replace(sizes.PRESETS["small"], **vhred)),
        patch("refaug.core.artefacts.versions.datetime", ThatDay),
    ):
        yield


def run(line: str) -> None:
    """Run a command, which has to succeed."""
    from refaug.cli.main import main  # noqa: PLC0415

    arguments = ["--quiet", "--home", "home", *shlex.split(line)]
    code = main(arguments)
    if code:
        raise SystemExit(f"refaug {line}: {code}")


def take_part(home: Path) -> None:
    """Let two people talk with the bots of the study, and rate them."""
    from serving import client_of  # noqa: PLC0415
    from studying import Person, invitation  # noqa: PLC0415

    from refaug.core.home import Settings  # noqa: PLC0415

    with client_of(Settings(home=home)) as client:
        for quality in (6, 2):
            person = Person(client)
            person.enter(invitation(client, "first"))
            person.agree()
            for _ in range(2):
                person.chat(1, quality=quality)


def make(folder: Path) -> None:
    """Make the home and the files beside it in a folder."""
    write_files(folder)
    with chdir(folder), tiny_networks():
        for line in BEFORE_THE_SERVICE:
            sets = sorted(Path("home/reference-sets").glob("*.jsonl.zst"), key=lambda path: path.stat().st_mtime)
            run(line.replace("{set}", sets[0].name.split(".")[0] if sets else ""))
        take_part(Path("home").resolve())
        name_encoder(Path("home"))


def name_encoder(home: Path) -> None:
    """Let the index of an encoder name it by a relative path, since the home is unpacked elsewhere."""
    from refaug.core.files import read_json, with_checksum, write_json  # noqa: PLC0415

    for path in home.glob("indexes/coded/*/manifest.json"):
        manifest: dict[str, Any] = read_json(path)
        manifest["vectors"]["path"] = "encoder"
        write_json(path, with_checksum(manifest))


def pack(folder: Path) -> None:
    """Write the archive: files in order, of nobody, without what is made anew or compiled."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if any(part in entry.name.split("/") for part in ("cache", "serving", "workers")) or entry.name.endswith(
            ".lock"
        ):
            return None
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    parameters = zstandard.ZstdCompressionParameters.from_level(22, window_log=24, enable_ldm=True)
    with (
        ARCHIVE.open("wb") as file,
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(file) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for path in sorted(folder.iterdir()):
            if path.name != "talk.jsonl":
                archive.add(path, path.name, filter=kept)


def main() -> None:
    """Make and pack."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        pack(Path(folder))


if __name__ == "__main__":
    main()
