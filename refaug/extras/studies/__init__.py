"""Studies with people: what they are asked, who gets which task, and what their answers say.

The main names:

- `protocol.study_protocol.StudyProtocol`: a checked protocol with its hash
- `assignment.next_slot`: the slot that a participant gets next
- `records.StudyTask`: what a participant did in one task
- `report.numbers.study_report`: every figure of a study.
"""
