"""The REST views, by resource: they translate, services decide."""
