"""Routes of pages for people: the playground and its neighbours, and the documentation of the API.

The main names:

- `shells.show_page`: a page that asks the API
- `shells.get_page_file`: its style, scripts and examples
- `documentation.show_docs`: the page of the API's documentation.
"""
