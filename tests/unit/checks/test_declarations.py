"""How often options are declared: a setting of references once, others once and in the signatures that spell them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SPEC = importlib.util.spec_from_file_location("refaug_declarations", ROOT / "checks" / "declarations.py")
assert _SPEC is not None
assert _SPEC.loader is not None
declarations = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = declarations
_SPEC.loader.exec_module(declarations)


def test_a_setting_of_references_is_declared_once_and_an_order_and_its_flags_are_its_operation() -> None:
    counts = declarations.declarations()
    assert set(counts.pop(declarations.SETTINGS).values()) == {1}
    spelled = {name: {option for option, count in of.items() if count > 1} for name, of in counts.items()}
    assert {name for name, options in spelled.items() if options} == {
        "score",
        "meta",
        "references",
        "rate",
        "replies",
        "freeze",
    }
    assert spelled["meta"] == {
        *("metrics", "baseline", "language", "rows", "draws", "seed", "confidence", "min_kappa"),
        *("index", "rater", "settings"),
    }
    assert (spelled["replies"], spelled["freeze"]) == ({"items"}, {"items"})  # sent in a body, and named as a file
