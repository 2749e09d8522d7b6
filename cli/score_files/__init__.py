"""Commands on scores that were written: compare, verify, signature, cite, and the history of a set.

The main names:

- `compare.compare_command`: `refaug compare`
- `verify.verify_command`: `refaug verify`
- `signature.cite_command`: `refaug cite`.
"""

__all__ = ["compare", "set_history", "signature", "verify"]
