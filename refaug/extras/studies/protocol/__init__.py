"""What a study asks: its protocol, forms as data, and the items that are judged.

The main names:

- `study_protocol.StudyProtocol`: a checked protocol with its hash
- `study_form.StudyForm`: a form, built in or of a user
- `study_items.units_of`: items as units of work.
"""
