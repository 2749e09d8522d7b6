"""Tasks of participants: how they are given out, the messages of chats, answers and ends.

The main names:

- `task_assignment.give_next_task`: reserves a task in one transaction
- `chat_turns.claim_turns`: the replies that a process is to ask bots for
- `task_acts.finish_task`: ends a task that is complete.
"""
