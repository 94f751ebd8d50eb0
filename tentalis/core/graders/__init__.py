"""What graders compute of texts, numbers and places: rules alone, no library but the standard one."""
