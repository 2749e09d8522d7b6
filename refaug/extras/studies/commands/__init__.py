"""`refaug studies …`: studies with people.

The main names:

- `studies.app`: all commands under `refaug studies`
- `stored_studies.new_command`: stores a protocol as a study, and says what is wrong with it
- `report.report_command`: the figures of a study, from the service or from files.
"""

__all__ = ["studies"]
