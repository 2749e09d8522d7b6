"""`refaug studies …`: studies with people.

The main names:

- `study_files.export_command`: the answers of a study in a form that other tools read
- `stored_studies.new_command`: stores a protocol as a study, and says what is wrong with it
- `report.report_command`: the figures of a study, from the service or from files.
"""
