"""Loops over arrays that numba compiles when they are first called; importing this room imports no numba.

The main names:

- `kernel.compiled`: the decorator of a loop
- `kernel.quickest`: a loop in compiled form, or in Python for small work before numba is imported
- `compiler`: how a loop is compiled, and where compiled loops are cached
- `kernel_cache`: what an installation has left there, without numba.
"""
