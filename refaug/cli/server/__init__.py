"""Commands of an operator: serve, jobs, schedules, keys, doctor.

The main names:

- `serve.serve_command`: `refaug serve`
- `jobs.start_command`: `refaug admin jobs start`
- `doctor.doctor_command`: `refaug admin doctor`.
"""
