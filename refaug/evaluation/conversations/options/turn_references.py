"""How references of the turns of conversations are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from refaug.core.errors import Usage
from refaug.core.options.declaring import Doc, NoFlag
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import PresetName

_NO_GOLD = "a conversation has no gold"


@dataclass(frozen=True, kw_only=True)
class TurnReferences(AugmentSettings):
    """How references of turns are found, rated and weighed: without a gold, which conversations do not have."""

    gold: Annotated[Literal["none"], NoFlag(_NO_GOLD), Doc("A conversation has no gold.")] = "none"
    preset: Annotated[PresetName | None, NoFlag(_NO_GOLD), Doc("None: each of them weighs a gold.")] = None

    def check(self) -> None:
        """Refuse a preset, which would rate golds."""
        if self.preset is not None:
            raise Usage("it weighs golds, and conversations have none", remedy="leave it out", field="preset")
        super().check()
