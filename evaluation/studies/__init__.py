"""Studies with people: their records, statistics, reports and exports.

The main names:

- `records.read_tasks`: the tasks of a study, as its export has them
- `records.StudyTask`: what a participant did in one task
- `exclusions.exclusions`: who is left out by the rules of a protocol, and why.
"""

__all__ = ["exclusions", "figures", "imports", "questions", "records", "report"]
