"""What a quick run makes, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from proofs import tiny_chain

from refaug.extras.reproduction.material import chain as module
from refaug.extras.reproduction.material.chain import Chain
from refaug.extras.reproduction.material.proof_logs import ProofSettings


class _Ordered(Exception):
    """What is ordered is enough to know: nothing is trained."""


@pytest.mark.parametrize(
    ("preset", "fraction", "name"),
    [("base", 1.0, "proof"), ("small", 1.0, "proof-small"), ("base", 0.5, "proof-0.5")],
)
def test_a_quick_ruber_leaves_alone_the_one_that_took_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str, fraction: float, name: str
) -> None:
    """Only a published version is taken as it is, so a quick one of the same name would have the other trained anew."""
    ordered = list[str]()

    def train(_places: object, order: module.RuberOrder, *_rest: object, **_more: object) -> None:
        ordered.append(order.name)
        raise _Ordered

    monkeypatch.setattr(module, "train_ruber", train)
    tiny = tiny_chain(tmp_path)
    settings = ProofSettings(data=tiny.settings.data, preset=preset, fraction=fraction)
    with pytest.raises(_Ordered):
        Chain(tiny.home, settings, tiny.progress).ruber()
    assert ordered == [name]
