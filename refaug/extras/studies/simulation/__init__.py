"""Studies with simulated people, whose truth is known: what a protocol would see, and whom its rules catch.

The main names:

- `people.simulated_study`: the tasks of a study as honest and careless people would do them
- `rehearsal.rehearse`: many such studies, and how often the truth is found
- `server_rehearsal.ServerRehearsal`: simulated people in the pilot of a study at a running server.
"""
