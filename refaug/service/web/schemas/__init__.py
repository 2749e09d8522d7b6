"""Models of requests and responses.

The main names:

- `scoring.ScoresIn`: a request for scores
- `scoring.ScoresOut`: its response
- `jobs.JobIn`: a job to queue.
"""
