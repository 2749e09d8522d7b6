"""Homes whose index has the vectors of a tiny encoder, with numbers of refaug-1 for it that tests patch in."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from encoders import TinyEncoder, write_encoder
from serving import migrated

from refaug.cli.main import main
from refaug.core.artefacts.kinds import artefact_stores
from refaug.core.home import Settings
from refaug.core.vectors.encoders import open_encoder
from refaug.metrics.embeddings.recommended import MetricCalibration
from refaug.metrics.embeddings.reply_guards import ANY_ORDER, NO_GUARD
from refaug.scoring.home.encoders import add_calibration

TEXTS = [
    f"{who} {does} {what}"
    for who, does, what in product(("i", "you", "the dog"), ("like", "drink"), ("tea", "a cat", "the big dog"))
]
ITEMS = [
    {
        "id": f"i{number}",
        "turns": [TEXTS[number], f"{TEXTS[number + 5]} ?"],
        "references": [TEXTS[number + 8]],
        "replies": {"a": f"{TEXTS[number + 3]} .", "b": f"{TEXTS[number + 5]} ?"},
    }
    for number in range(6)
]


def recommended_home(folder: Path, *, is_calibrated: bool = False) -> MetricCalibration:
    """Make a home with the index `chat`, and items.jsonl beside it; returns the numbers for its encoder.

    With `is_calibrated` they lie beside the encoder: then `refaug-1:encoder=tiny` scores in any process.
    """
    home, encoder = folder / "home", write_encoder(folder / "tiny", weights=TinyEncoder.seeded())
    (folder / "items.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ITEMS))
    log = [
        {
            "id": str(number),
            "turns": [f"{TEXTS[number % 18]} ?", f"{TEXTS[(7 * number + 1) % 18]} !", TEXTS[(5 * number) % 18]],
        }
        for number in range(60)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    calibration = MetricCalibration(
        encoder=open_encoder(encoder).name,
        most_like={"turn": 0.9, "turns": 0.9},
        drawn={"gold+retrieved": (2.4, 0.2), "gold": (1.5, 0.2), "retrieved": (2.6, 0.2)},
        link=(-1.0, 1.0),
        sha256="0" * 64,
    )
    assert main(["--home", str(home), "--quiet", "index", "encoder", "add", "tiny", str(encoder)]) == 0
    if is_calibrated:
        add_calibration(artefact_stores(Settings(home=home))["encoder"], home / "cache", "tiny", stored(calibration))
    for command in (
        ("log", "ingest", folder / "log.jsonl", "--log", "chat"),
        ("index", "build", "chat", "--encoder", "tiny", "--check-queries", "0"),
    ):
        assert main(["--home", str(home), "--quiet", *map(str, command)]) == 0, command
    migrated(Settings(home=home))
    return calibration


def stored(calibration: MetricCalibration) -> bytes:
    """The file of a calibration."""
    guards = {name: [guard.limit, guard.slope] for name, guard in (("copied", NO_GUARD), ("order", NO_GUARD))}
    fields = {name: getattr(calibration, name) for name in ("encoder", "most_like", "drawn", "link")}
    return json.dumps({**fields, **guards, "word_order": ANY_ORDER.stored()}).encode()
