"""Routes, one module for each kind of resource.

The main names:

- `scores.score`: POST /v1/scores
- `references.find_references`: POST /v1/references
- `jobs.start_job`: POST /v1/jobs.
"""
