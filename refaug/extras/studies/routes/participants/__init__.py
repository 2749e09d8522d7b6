"""The routes of participants of studies.

The main names:

- `sessions.open_session`: POST /v1/take/session
- `participant_tasks.send_message`: POST /v1/take/tasks/{task}/messages
- `participant_tasks.ReplyMaker`: the replies of bots, made beside the requests.
"""
