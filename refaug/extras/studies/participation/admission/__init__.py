"""Who is let into a study: by which link, how many at once, and for how many there are places.

The main names:

- `invites.InviteStore`: invitations, the sessions that they open, and links to go on elsewhere
- `invites.Newcomers`: slows people who are new, by invitation and address
- `invites.take_place`: the place that a participant takes with the first answer.
"""
