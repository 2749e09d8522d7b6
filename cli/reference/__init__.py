"""The generated reference pages of the command line and of the settings."""
