"""What learning computes without a tensor: recipes, advantages, batches, the gate and the collapse alarms."""
