"""Pages for people with a browser: shells that the server fills, and scripts that ask the public API.

The main names:

- `shells.shells`: the pages by their paths
- `shells.render_shell`: a page as HTML
- `static_files.StaticFiles`: style, scripts and examples, under an address that changes with their content.
"""
