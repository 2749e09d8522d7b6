"""Loops over arrays that numba compiles when they are first called; importing this room imports no numba.

The main names:

- `kernel.compiled`: the decorator of a loop
- `kernel.quickest`: a loop in compiled form, or in Python for small work before numba is imported
- `compiler`: how a loop is compiled, and where compiled loops are cached.
"""

from refaug.core.kernels.arrays import frozen
from refaug.core.kernels.kernel import (
    KERNELS,
    PLAIN_BUDGET,
    Kernel,
    PlainBudget,
    compiled,
    compiled_with,
    load_compiler,
    plain_form,
    quickest,
)

__all__ = [
    "KERNELS",
    "PLAIN_BUDGET",
    "Kernel",
    "PlainBudget",
    "arrays",
    "compiled",
    "compiled_with",
    "compiler",
    "frozen",
    "kernel",
    "load_compiler",
    "plain_form",
    "quickest",
]
