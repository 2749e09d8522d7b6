"""The orders of jobs: one model for each kind, with the defaults of the same command.

A `JobOrder` is any of them, `parse_order` reads one, and `resources_of` says what a job writes. Commands have an option
`again`, orders do not: a job that is started again after its process was killed finds its earlier results.
"""
