"""What at least two packages above need: records, text, logs, pairs, errors and files. Nothing heavy."""
