"""What a user hears while loops are compiled: a line, once, and nothing with --quiet."""

from __future__ import annotations

import logging

import pytest

from refaug.cli.shared.progress import display_progress
from refaug.core.kernels.kernel import compiled


@pytest.mark.parametrize(("quiet", "lines"), [(False, 1), (True, 0)])
def test_the_first_loop_that_is_compiled_is_said(quiet: bool, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    source = compile("def add(a, b):\n    return a + b\n", "nowhere", "exec")  # of no file: compiled each time
    names: dict[str, object] = {}
    exec(source, names)
    add = compiled(names["add"])  # type: ignore[type-var]
    with display_progress(quiet=quiet):
        assert (add(1, 2), add(1.5, 2)) == (3, 3.5)  # type: ignore[operator]
    assert capsys.readouterr().err.count("compiling") == lines
    assert logging.getLogger("refaug.compiling").propagate is False
