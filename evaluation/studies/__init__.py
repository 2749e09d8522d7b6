"""Studies with people: their records, statistics, reports and exports.

The main names:

- `records.read_tasks`: the tasks of a study, as its export has them
- `records.StudyTask`: what a participant did in one task
- `records.write_tasks`: the same, written.
"""

__all__ = ["records"]
