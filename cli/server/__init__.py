"""Commands of an operator: serve, jobs, schedules, keys, doctor, export and import."""
