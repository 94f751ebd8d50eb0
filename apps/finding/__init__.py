"""Finding things: the filters and orders of lists, their pages, and one search over everything."""
