"""The routes of studies: for those who lead them, and for those who take part.

The main names:

- `studies.study_protocols.router`: studies and their protocols
- `studies.participants.router`: invitations
- `participants.sessions.router`: the sessions of participants.
"""
