"""The experiments of `refaug reproduce`, one a file."""
