"""Studies with people in the database: protocols, invitations, tasks in one transaction, actions that happen once.

The main names:

- `study_store.StudyStore`: studies, their states and amendments
- `participant_desk.ParticipantDesk`: what participants do
- `invites.InviteStore`: invitations and sessions
- `study_records.study_records`: the tasks as records.
"""
