"""The commands about judges behind an endpoint, a file a noun.

The main names:

- `judge.check_command`: `refaug judge check`
- `judge_items.compare_command`: `refaug judge compare`
- `judge_items.probe_command`: `refaug judge probe`.
"""

__all__ = ["judge", "judge_items"]
