"""The figures of the experiments: correlations, agreement among people, the lines of the main table.

The main names:

- `correlations.correlate`: correlations of lines of scores with ratings
- `annotators.human_rows`: how reliable the ratings themselves are
- `main_lines.MainLines`: the lines that `metrics` compares
- `rows_beside.rows_beside`: the rows apart from them, after papers of others.
"""
