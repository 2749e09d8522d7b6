"""What a home holds beside its logs: the kinds of artefacts that have versions, and kept vectors of texts.

A kind is one line here, and one class in the module that the line names: the facts of a version, what `show`
prints, and what is checked before a version is published or removed.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Usage
from refaug.core.home import VARIABLES, Settings
from refaug.core.options.kinds import SizeKind, WrongValue
from refaug.core.text.messages import suggestion

if TYPE_CHECKING:
    from refaug.core.vectors.kept_vectors import Encodings

_LIMIT: Final = "REFAUG_ENCODINGS"


class ArtefactKind(StrEnum):
    """A kind by the name that manifests, commands and jobs use."""

    folder: str  # of the home
    rules: str  # module:class, a subclass of StoredArtefacts; imported when it is used
    made_by: str  # the command that makes a first version

    def __new__(cls, name: str, folder: str, rules: str, made_by: str) -> Self:
        """Return the member with what is declared beside its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.folder, member.rules, member.made_by = folder, f"refaug.{rules}", f"refaug {made_by}"
        return member

    ADEM = "adem", "adems", "scoring.home.kinds:StoredAdems", "train adem ITEMS --encoder NAME"
    ENCODER = (
        "encoder",
        "encoders",
        "scoring.home.kinds:StoredEncoders",
        "index encoder add NAME FOLDER",
    )
    HYBRID = (
        "hybrid",
        "hybrids",
        "extras.conversations.stored_hybrids:StoredHybrids",
        "train hybrid CONVERSATIONS --name NAME --vectors VECTORS",
    )
    INDEX = "index", "indexes", "scoring.home.kinds:StoredIndexes", "index build LOG"
    JUDGE_FIT = (
        "judge-fit",
        "fitted-judges",
        "extras.judges.fitted.stored_judges:StoredJudges",
        "train judge-fit ITEMS --name NAME -m METRIC",
    )
    PASSPORT = (
        "passport",
        "passports",
        "extras.judges.passports.stored_passports:StoredPassports",
        "judge certify JUDGE ITEMS --name NAME",
    )
    RATER = "rater", "raters", "scoring.home.kinds:StoredRaters", "train rater LOG"
    RUBER = "ruber", "rubers", "scoring.home.kinds:StoredRubers", "train ruber LOG"
    SELF_PLAY = (
        "self-play",
        "self-plays",
        "extras.conversations.selfplay.stored:StoredSelfPlays",
        "bots play BOT --name NAME --start log:NAME",
    )
    VECTORS = "vectors", "vectors", "scoring.home.kinds:StoredWordVectors", "train vectors LOG"
    VHRED = "vhred", "vhreds", "scoring.home.kinds:StoredVhreds", "train vhred LOG"


# What has no versions, and the commands about it.
WITHOUT_VERSIONS: Final = {"bot": "bots", "judge": "judge", "log": "log", "set": "sets", "study": "studies"}


def find_kind(name: str) -> ArtefactKind:
    """Return the kind of this name; Usage for any other name, with the nearest one."""
    if name in set(ArtefactKind):
        return ArtefactKind(name)  # type: ignore[call-arg]  # by its value
    if name in WITHOUT_VERSIONS:
        raise Usage(f"a {name} has no versions", remedy=f"refaug {WITHOUT_VERSIONS[name]} --help")
    raise Usage(
        f"{name!r} is not a kind of artefact{suggestion(name, map(str, ArtefactKind))}",
        remedy=f"one of: {', '.join(ArtefactKind)}",
    )


def artefact_stores(settings: Settings) -> dict[str, Versions]:
    """Return the versions of every kind, by the name that manifests and commands use."""
    return {kind.value: Versions(settings.home / kind.folder, kind.value) for kind in ArtefactKind}


def encodings_in(cache: Path) -> Encodings:
    """Return the vectors that a home keeps of texts, by its folder of what can be made again."""
    from refaug.core.vectors.kept_vectors import Encodings  # noqa: PLC0415  numpy, which most commands do not need

    default = VARIABLES[_LIMIT][1]
    try:
        return Encodings(cache / "encodings", SizeKind().read(os.environ.get(_LIMIT) or default))
    except WrongValue as error:
        raise Usage(f"{_LIMIT}: {error}", remedy=f"by default it is {default}") from error
