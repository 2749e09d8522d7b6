"""What every connection and request passes before its route: limits, hosts, bodies, admission."""
