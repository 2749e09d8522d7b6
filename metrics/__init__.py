"""Tokens and weights in, numbers out: one metric a file, and the statistics to trust them."""
