"""The generated reference pages of the command line and of the settings.

The main names:

- `cli_reference.cli_reference`: the page of all commands
- `settings_reference.settings_page`: the page of all settings
- `cli_reference.main`: writes a page, or checks that it is current.
"""
