"""The commands about whole conversations, a file a noun.

The main names:

- `hybrid.evaluate_command`: `refaug hybrid evaluate`
- `hybrid.app`: `refaug hybrid …`
- `hybrid.fit_command` and its siblings: `refaug hybrid fit|score`
- `judging.judge_command`: `refaug conversations judge`
- `selfplay.play_command`: `refaug selfplay play`
- `inputs.read_conversations`: the conversations that a command names.
"""

__all__ = ["hybrid", "inputs", "judging", "selfplay"]
