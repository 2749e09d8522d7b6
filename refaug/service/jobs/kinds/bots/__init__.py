"""The job about bots: their replies to a file.

The main names:

- `replying.replies_job`: a file with replies, which becomes an upload
- `replying.ReplyToItems`: its options
- `replying.JobContext`: the folders, settings and progress of a job.
"""
