"""Following a job: its stream of events, and how a lost stream is resumed.

The main names:

- `following.Event`: an event of a job
- `following.Reader`: events from the lines of a stream
- `following.JobFollower`: follows a job to its end.
"""
