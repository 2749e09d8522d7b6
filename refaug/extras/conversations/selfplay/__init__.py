"""Self-play of bots as an artefact, and what such conversations share with each other and with a log.

The main names:

- `starts.read_starts`: what conversations begin with: nothing, lines of a file, utterances of a log
- `recording.record_self_play`: play, write, stop and go on; a version of a `self-play` artefact
- `stored.open_self_play`: a stored version
- `check.check_self_play`: overlaps, distinct words, repetition, lengths over turns
- `shared_windows.SharedWindows`: pairs of conversations that share a window, counted in bounded memory
- `log_windows.count_in_log`: conversations that have a window of a log.
"""
