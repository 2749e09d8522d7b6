"""Score files: the JSON of scores as it is written, sealed and read back; every use of one reads it here.

The main names:

- `score_document.ScoreDocument`: any document with signatures, of scores or of sums
- `score_file.ScoreFile`: scores that were written, read back
- `score_file.sealed`: the JSON of scores with its format and checksum.
"""
