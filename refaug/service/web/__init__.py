"""The HTTP interface: routes read a request, call the same functions as the command line, and return JSON.

The main names:

- `app.create_app`: the application over a home
- `state.ServiceState`: the parts that routes share
- `openapi.openapi_document`: the OpenAPI document.
"""
