"""The demo log and its test file: invented everyday dialogues of our own, the same bytes for the same seed."""
