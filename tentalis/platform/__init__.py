"""`tentalis up`: embedded Postgres and Redis, and the supervisor of every process. Imports no Django and no torch."""
