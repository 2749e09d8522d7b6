"""Following a job: its stream of events, and how a lost stream is resumed."""
