"""The parts of the API, and the methods of each; a method that sends one request says which.

The main names:

- `scoring.ScoringCalls`: the methods of a client itself
- `sets.Sets`: frozen reference sets
- `jobs.Jobs`: work that takes longer than a request.
"""
