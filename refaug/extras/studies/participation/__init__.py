"""Studies with people in the database: protocols, invitations, tasks in one transaction, actions that happen once.

The main names:

- `study_store.StudyStore`: studies, their states and amendments
- `participant_desk.ParticipantDesk`: what participants do
- `invites.InviteStore`: invitations and sessions
- `signed_links.SignedLinks`: the ids of recruiting services that sign them
- `study_records.study_records`: the tasks as records.
"""
