"""The settings of finding and weighing references, as the keys of a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refaug.core.errors import Usage
from refaug.core.options.decoding import decode
from refaug.evaluation.scoring.augment_settings import AugmentSettings


def augment_settings(settings: Mapping[str, Any] | None) -> AugmentSettings:
    """Return checked settings; None stands for the default of one."""
    if settings is None:
        return AugmentSettings()
    if not isinstance(settings, Mapping):
        raise Usage(f"settings={settings!r} is no dict", remedy='settings={"k": 5}')
    return decode(AugmentSettings, {name: setting for name, setting in settings.items() if setting is not None})
