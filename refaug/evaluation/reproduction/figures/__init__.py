"""The figures of the experiments: correlations, non-inferiority, selection, length controls.

The main names:

- `correlations.correlate`: correlations of lines of scores with ratings
- `noninferiority.judge`: whether a metric is not inferior to another
- `main_lines.MainLines`: the lines that an experiment compares.
"""

__all__ = [
    "annotators",
    "correlations",
    "length_stress",
    "main_lines",
    "noninferiority",
    "selection",
    "smoothing",
    "weight_claims",
]
