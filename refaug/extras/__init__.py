"""Features that can be taken away: each whole, with method, tables, pages, operations and commands.

The main names:

- `judges.language_models.pointwise.PointwiseJudge`: judges of replies: language models, fitted ones, ADEM
- `conversations.hybrids.open_hybrid`: self-play, and metrics of whole conversations
- `studies.protocol.study_protocol.StudyProtocol`: studies with people
- `reproduction.command.parts_named`: the method's claims, measured
- `cluster.connection.connect`: builds and searches on several machines.
"""
