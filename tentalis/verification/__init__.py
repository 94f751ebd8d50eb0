"""Finding out, in a sandbox, what a patch of a repository comes to. Needs no Django and no database."""
