"""Commands on scores and reports that were written: compare, verify, cite, pages of reports, the history of a set.

The main names:

- `compare.compare_command`: `refaug compare`
- `verify.verify_command`: `refaug score verify`
- `cite.cite_command`: `refaug score cite`.
"""
