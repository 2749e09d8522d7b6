"""The routes of studies for their operators.

The main names:

- `study_protocols.create_study`: POST /v1/studies
- `participants.create_invites`: POST /v1/studies/{id}/invites
- `study_figures.export_study`: GET /v1/studies/{id}/export.
"""
