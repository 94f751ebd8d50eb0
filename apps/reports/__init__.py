"""What console and REST both tell, read once: queues, learning curves, lineage."""
