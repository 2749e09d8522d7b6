"""What a named metric needs before it scores: baselines and ranges measured on a log, and models."""
