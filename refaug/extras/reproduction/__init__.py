"""The method's claims on real logs and ratings, each beside a control that could refute it: agreement reproduce.

The main names:

- `command.parts_named`: the experiments by name
- `material.proof_logs.ProofLogs`: the logs that they work on
- `report.report.Report`: what an experiment reports.
"""
