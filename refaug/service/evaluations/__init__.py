"""Files that people upload, and the evaluations that jobs make of them; both lie in the home until they expire.

The main names:

- `uploads.UploadStore`: uploaded files, by id
- `evaluation_store.EvaluationStore`: finished evaluations, by the id of their job
- `notes.NoteStore`: notes on replies, in the database.
"""
