"""Learning in plain torch: log-probs, packed batches, losses. No model library, no device choice, no config."""
