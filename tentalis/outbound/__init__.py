"""Requests to addresses that somebody typed in: model servers, webhooks. Never to where the platform itself lives.

An address given by a user could name this machine, its neighbours or a cloud's metadata service. So, whoever asks:

- the address is plain (`addresses.check_url`), and what its host resolves to is looked at when the connection is made
  and is the address connected to: a name that resolves otherwise a moment later gains nothing;
- only public addresses are connected to, unless an admin allowed private ones for this very server;
- no redirect is followed, no proxy of the environment is asked, answers are bounded in size and time;
- a client bound to an origin sends nothing to another, so that a key goes where it was given for.

`sync.guarded_client` for httpx, `http1.Client` in an event loop. Nothing else in the web process opens a connection to
an address out of the database.
"""
