"""Parts that several commands share: options, output, progress.

The main names:

- `output.print_table`: a table on the terminal
- `progress.display_progress`: progress on the terminal while a command runs
- `score_options.ScoreOutput`: how every command that scores shows the scores.
"""

__all__ = [
    "database",
    "field_options",
    "index_options",
    "item_inputs",
    "network_commands",
    "output",
    "progress",
    "progress_bars",
    "reference_options",
    "score_options",
]
