"""The commands of judges."""

from __future__ import annotations

from typing import Final

from refaug.cli.shared.command_place import CommandPlace

ADEM: Final = CommandPlace(
    at="refaug.extras.judges.commands.adem.adem:app",
    help="Train judges on people's ratings: ADEM, and the networks that its encoder is taken from.",
    inner={
        "train": "refaug.extras.judges.commands.adem.scorers:train_command",
        "report": "refaug.extras.judges.commands.adem.scorers:report_command",
        "score": "refaug.extras.judges.commands.adem.scorers:score_command",
    },
)
JUDGE: Final = CommandPlace(
    at="refaug.extras.judges.commands.judge:app",
    help="Language models behind an endpoint as judges: try them, compare replies in pairs, probe for bias.",
    inner={
        "compare": "refaug.extras.judges.commands.judge:compare_command",
        "probe": "refaug.extras.judges.commands.judge:probe_command",
        "weigh": "refaug.extras.judges.commands.judge:weigh_command",
    },
)
JUDGE_FIT: Final = CommandPlace(
    at="refaug.extras.judges.commands.judge_fit:app",
    help="Judges fitted to people's ratings: a small combination of metrics, never scored on its own training rows.",
)
