"""Who gets which task: Williams squares, loads, sides, checks; pure functions.

The main names:

- `next_task.williams_rows`: orders in which each condition follows each other one equally often
- `next_task.next_slot`: the slot that a participant gets next
- `next_task.check_plan`: where checks of attention stand.
"""
