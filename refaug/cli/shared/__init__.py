"""Parts that several commands share: options, output, progress.

The main names:

- `output.print_table`: a table on the terminal
- `progress.display_progress`: progress on the terminal while a command runs
- `score_options.ScoreOutput`: how every command that scores shows the scores.
"""
