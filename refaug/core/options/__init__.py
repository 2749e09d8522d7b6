"""What the options of operations and settings are declared with, and the one decoder that enforces them.

The main names:

- `declaring.Doc`: what an option means; `Ge`, `Le`, `Length` and others beside it are limits
- `decoding.Options`: a base of frozen dataclasses whose fields are checked, however they are made
- `decoding.decode`: values by name, such as a body or keywords, as such a dataclass
- `describing.options_of`: the fields with their texts, limits and defaults
- `describing.schema_of`: the same for the OpenAPI document.

Nothing here imports more than the standard library and `core.errors`: the command's help is made of these.
"""
