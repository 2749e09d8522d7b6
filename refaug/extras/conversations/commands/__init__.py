"""The commands about whole conversations, a file a noun.

The main names:

- `hybrid.evaluate_command`: `refaug agreement hybrid`
- `hybrid.fit_command`: `refaug train hybrid`
- `judging.judge_command`: `refaug judge conversations`
- `selfplay.play_command`: `refaug bots play`
- `inputs.read_conversations`: the conversations that a command names.
"""

__all__ = ["hybrid", "inputs", "judging", "selfplay"]
