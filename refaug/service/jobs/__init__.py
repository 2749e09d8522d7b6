"""Jobs and schedules: the store, the worker, the kinds of jobs, and the inbox of posted dialogues.

The main names:

- `store.JobStore`: the queue and the history of jobs
- `worker.run_worker`: runs jobs one after the other
- `schedules.ScheduleStore`: the schedules, and the jobs that they begin.
"""
