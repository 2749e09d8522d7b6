"""Commands on scores and reports that were written: compare, render, verify, signature, cite, the history of a set.

The main names:

- `compare.compare_command`: `refaug compare`
- `verify.verify_command`: `refaug verify`
- `signature.cite_command`: `refaug cite`.
"""

__all__ = ["compare", "render", "set_history", "signature", "verify"]
