"""Operations on dialogue logs: adding to one, taking out of one, and the nightly job, which goes on to the index.

The main names:

- `ingest_log.IngestLog`: files of dialogues into a log
- `erase.Erase`: dialogues out of it
- `run_night.RunNight`: both, and on to the index
- `cleaning_options.CleaningOptions`: how texts are cleaned, in an ingest and a night.
"""
