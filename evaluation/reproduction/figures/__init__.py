"""The figures of the experiments: correlations, non-inferiority, selection, length controls."""
