"""The reports by name: what `refaug agreement reproduce NAME` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from refaug.core.errors import NotFound, Usage

if TYPE_CHECKING:
    from refaug.extras.reproduction.material.chain import Chain
    from refaug.extras.reproduction.material.rated_sets import ProofSet
    from refaug.extras.reproduction.report.report import Report

    Run = Callable[[Chain, Sequence[ProofSet]], Report]

ALL: Final = "all"
USUAL_SETS: Final = (  # rated sets with references, by their names in human/
    "dailydialog_gupta",
    "dailydialog_zhao",
    "grade_dailydialog",
    "grade_empatheticdialogues",
    "holistic_dailydialog",
    "predictive_engagement_dd",
)

RECOMMENDED_SETS: Final = (*USUAL_SETS, "conture", "fed_turn", "personachat_zhao", "usr_topicalchat")


class PartFunction(NamedTuple):
    """Where the function of a part lies; its module is imported late, for it needs torch, FAISS and matplotlib."""

    module: str
    function: str
    searches: bool = True  # whether it needs sets for which the index has references
    reads_sets: bool = True  # whether it is about the sets that were asked for; some have data of their own
    files: tuple[str, ...] = ()  # of the data, beside logs and rated sets, without which there is no report

    def load(self) -> Run:
        """Import the function."""
        run: Run = getattr(import_module(self.module), self.function)
        return run

    def missing(self, data: Path) -> str | None:
        """Return which file the data lacks for this part, or None."""
        return next((name for name in self.files if not (data / name).is_file()), None)


PARTS: Final[Mapping[str, PartFunction]] = {
    "recommended": PartFunction(
        "refaug.extras.reproduction.experiments.recommended",
        "recommended",
        searches=False,
        reads_sets=False,
        files=tuple(f"human/{name}.jsonl.gz" for name in RECOMMENDED_SETS),
    ),
    "raters": PartFunction(
        "refaug.extras.reproduction.experiments.raters",
        "raters",
        searches=False,
        reads_sets=False,
        files=tuple(f"human/{name}.jsonl.gz" for name in RECOMMENDED_SETS),
    ),
    "metrics": PartFunction("refaug.extras.reproduction.experiments.metrics", "metrics"),
    "multi-reference": PartFunction("refaug.extras.reproduction.experiments.multi_reference", "multi_reference"),
    "weights": PartFunction("refaug.extras.reproduction.experiments.weights", "weights"),
    "adem": PartFunction("refaug.extras.reproduction.experiments.adem", "adem", searches=False),
    "hybrid": PartFunction(
        "refaug.extras.reproduction.experiments.hybrid",
        "hybrid",
        searches=False,
        reads_sets=False,
        files=("dialogues/ji2022_run1.jsonl.gz",),
    ),
}


def parts_named(name: str) -> tuple[str, ...]:
    """Return the parts that a name stands for."""
    if name == ALL:
        return tuple(PARTS)
    if name not in PARTS:
        raise Usage(f"there is no {name!r} to be reproduced", remedy=f"one of: {', '.join((*PARTS, ALL))}")
    return (name,)


def parts_at_hand(names: Sequence[str], data: Path) -> tuple[list[str], dict[str, str]]:
    """Return the parts that the data has the files of, and of the others why not.

    NotFound where no part is left: nothing could be measured.
    """
    gaps = {name: f"the data has no {path}" for name in names if (path := PARTS[name].missing(data)) is not None}
    if len(gaps) == len(names):
        raise NotFound(next(iter(gaps.values())), remedy="reproduce another part, or add it")
    return [name for name in names if name not in gaps], gaps
