"""The inference edge: agents connect by changing a base URL, and every token they use is kept."""
