"""Routes of uploaded files, and of the evaluations that jobs make of them.

The main names:

- `uploads.upload_file`: POST /v1/uploads
- `evaluations.start_evaluation`: POST /v1/evaluations
- `scored_replies.list_scored_replies`: GET /v1/evaluations/{id}/replies.
"""
