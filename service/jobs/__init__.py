"""Jobs and schedules: the store, the worker, the kinds of jobs, and the inbox of posted dialogues."""
