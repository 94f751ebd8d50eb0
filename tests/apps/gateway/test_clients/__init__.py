"""Client libraries as their users have them, unchanged, against a gateway process and a model server behind it."""
