"""Loops over arrays that numba compiles when they are first called; importing this room imports no numba.

The main names:

- `kernel.compiled`: the decorator of a loop
- `kernel.quickest`: a loop in compiled form, or in Python for small work before numba is imported
- `compiler`: how a loop is compiled, and where compiled loops are cached
- `kernel_cache`: what an installation has left there, without numba.
"""

from refaug.core.kernels.kernel import (
    KERNELS,
    PLAIN_BUDGET,
    Kernel,
    PlainBudget,
    compiled,
    compiled_with,
    frozen,
    load_compiler,
    plain_form,
    quickest,
)

__all__ = [
    "KERNELS",
    "PLAIN_BUDGET",
    "Kernel",
    "PlainBudget",
    "compiled",
    "compiled_with",
    "compiler",
    "frozen",
    "kernel",
    "kernel_cache",
    "load_compiler",
    "plain_form",
    "quickest",
]
