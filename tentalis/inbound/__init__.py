"""What stands between a socket and an application: limits that hold before any of it runs. See `tentalis.limits`."""
