"""Models of studies: those of operators, and those of participants' pages.

The main names:

- `admin.StudyIn`: a study to be made
- `admin.StudyOut`: a study with its counts
- `taking.TakeStateOut`: the state of a participant.
"""
