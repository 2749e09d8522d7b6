"""Arrays as files: what numpy reads is what was written, and a full disk is an error with a name."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, floating_dtypes, integer_dtypes
from refusals import refusing

from refaug.core.array_files import write_array
from refaug.core.errors import StorageFull


@given(
    st.one_of(integer_dtypes(endianness="<"), floating_dtypes(endianness="<")).flatmap(
        lambda kind: arrays(kind, array_shapes(max_dims=3, min_side=0, max_side=5))
    )
)
def test_what_numpy_reads_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, array: Any) -> None:
    path = tmp_path_factory.mktemp("arrays") / "array.npy"

    for given_array in (array, array.T):
        write_array(path, given_array)
        found = np.load(path, allow_pickle=False)

        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, given_array)


def test_a_full_disk_leaves_the_array_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    write_array(path, np.arange(10))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with refusing(StorageFull, "array.npy"):
            write_array(path, np.arange(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert np.load(path).tolist() == list(range(10))
    assert [one.name for one in tmp_path.iterdir()] == ["array.npy"]
