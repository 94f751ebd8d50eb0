"""Sandboxes for code that nobody trusts: a host process of its own (`host`), and what asks it (`client`).

Nothing here knows a database, a broker, Django or a secret. From the inside out: `agent` is pid 1 of a sandbox,
`confine` locks it in, `zygote` forks it, `embedded` keeps it, `host` serves it by the protocol of `frames`.
"""
