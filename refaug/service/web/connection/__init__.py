"""The way of every request to its route: hosts, bodies, admission.

The main names:

- `admission.Gate`: admits or refuses a request
- `body.read_body`: the body, within the limits
- `body.count_marks`: how many values and fields a body has, before they are made
- `admission.HeadAsGet`: HEAD is answered like GET.
"""
