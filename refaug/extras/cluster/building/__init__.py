"""Building the shards of an index on a cluster: the same files as one machine makes, by tasks on many.

The main names:

- `shards.make_shards_on`: all stages, each as tasks that may run on any machine
- `tasks`: what such a task does
- `tasks.attempt`: a task's own folder, whose files become those of the build at its end.
"""
