"""The way of every connection and request to its route: limits, hosts, bodies, admission.

The main names:

- `protocol.Protocol`: HTTP with limits on connections
- `admission.Gate`: admits or refuses a request
- `body.read_body`: the body, within the limits.
"""

__all__ = ["admission", "body", "head_requests", "protocol"]
