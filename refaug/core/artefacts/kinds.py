"""What a home holds beside its logs: the kinds of artefacts that have versions, and kept sentence vectors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refaug.core.artefacts.versions import Versions
from refaug.core.errors import Usage
from refaug.core.home import VARIABLES, Settings
from refaug.core.options.kinds import SizeKind, WrongValue

if TYPE_CHECKING:
    from refaug.core.vectors.kept_vectors import Encodings

_LIMIT: Final = "REFAUG_ENCODINGS"


def artefact_stores(settings: Settings) -> dict[str, Versions]:
    """Return the versions of every kind, by the name that manifests and commands use."""
    return {
        "adem": Versions(settings.adems, "adem"),
        "judge-fit": Versions(settings.fitted_judges, "judge-fit"),
        "encoder": Versions(settings.encoders, "encoder"),
        "hybrid": Versions(settings.hybrids, "hybrid"),
        "index": Versions(settings.indexes, "index"),
        "rater": Versions(settings.raters, "rater"),
        "ruber": Versions(settings.rubers, "ruber"),
        "self-play": Versions(settings.self_plays, "self-play"),
        "vectors": Versions(settings.vectors, "vectors"),
        "vhred": Versions(settings.vhreds, "vhred"),
    }


def encodings_in(cache: Path) -> Encodings:
    """Return the sentence vectors that a home keeps of texts, by its folder of what can be made again."""
    from refaug.core.vectors.kept_vectors import Encodings  # noqa: PLC0415  numpy, which most commands do not need

    default = VARIABLES[_LIMIT][1]
    try:
        return Encodings(cache / "encodings", SizeKind().read(os.environ.get(_LIMIT) or default))
    except WrongValue as error:
        raise Usage(f"{_LIMIT}: {error}", remedy=f"by default it is {default}") from error
