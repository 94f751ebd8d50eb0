"""The exactly-once ledger."""
