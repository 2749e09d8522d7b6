"""The orders of jobs: operations, each with the kind of its job.

Commands have an option `again`, orders do not: a job that is started again after its process was killed finds its
earlier results.

The main names:

- `job_order.JobOrder`: the order of any kind
- `job_order.parse_order`: reads an order
- `job_order.resources_of`: what a job writes, so that no two jobs write it at once.
"""
