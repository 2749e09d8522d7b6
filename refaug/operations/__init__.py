"""What a user can do, a file each: options with types, limits, defaults and texts, and the rules between them.

Commands, bodies, orders of jobs, keywords and reference pages are derived from these.

The main names:

- `operation.Operation`: a base of the dataclasses here
- `catalogue.operation_names`: the names of all operations, those of extras among them
- `catalogue.find_operation`: one of them, imported when it is needed.
"""
