"""The settings of finding and weighing references, as the keys of a dict."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from refaug.core.errors import Usage
from refaug.core.text.name_suggestions import suggestion
from refaug.evaluation.scoring.augment_settings import AugmentSettings
from refaug.evaluation.scoring.presets import find_preset

_NUMBER: Final = (int, float)
SETTING_KINDS: Final[Mapping[str, tuple[type, ...]]] = {  # what each setting may be; text stands for a name or a time
    "k": (int,),
    "mode": (str,),
    "gold": (str,),
    "parrot": (str, *_NUMBER),
    "weights": (str,),
    "combine": (str,),
    "calibrated": (bool,),
    "exclude_logs": (list, tuple),
    "after": (str, datetime),
    "before": (str, datetime),
    "near": _NUMBER,
    "near_tokens": (int,),
    "depth": (int,),
    "alpha": _NUMBER,
    "epsilon": _NUMBER,
    "preset": (str,),
}


def augment_settings(settings: Mapping[str, Any] | None) -> AugmentSettings:
    """Return checked settings; Usage for an unknown one, and where one contradicts the preset."""
    if settings is None:
        return AugmentSettings()
    if not isinstance(settings, Mapping):
        raise Usage(f"settings={settings!r} is no dict", remedy='settings={"k": 5}')
    for name, setting in settings.items():
        _require_kind(name, setting)
    options = {name: _time(name, setting) for name, setting in settings.items() if setting is not None}
    preset = find_preset(options.get("preset"))
    if preset is not None:
        options = preset.complete(preset.references, options)
    return AugmentSettings.from_options(**options)


def _require_kind(name: str, setting: object) -> None:
    """Raise Usage for a setting that does not exist, or that is not of its kind; None stands for the default."""
    if name not in SETTING_KINDS:
        remedy = f"one of: {', '.join(SETTING_KINDS)}"
        raise Usage(f"there is no setting {name!r}{suggestion(str(name), SETTING_KINDS)}", remedy=remedy)
    kinds = SETTING_KINDS[name]
    if setting is None or (isinstance(setting, kinds) and (bool in kinds or not isinstance(setting, bool))):
        return
    expected = " or ".join("a list" if kind is list else kind.__name__ for kind in kinds if kind is not tuple)
    raise Usage(f"settings: {name}={setting!r} is not {expected}", remedy="docs/python.md lists the settings")


def _time(name: str, moment: Any) -> Any:
    if name not in ("after", "before") or not isinstance(moment, str):
        return moment
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        raise Usage(f"{name}={moment!r} is no ISO 8601 time", remedy="such as 2027-06-01T09:00:00+00:00") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)  # as in the command
