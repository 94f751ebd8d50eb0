"""What comes in and what goes out, by resource. Input is strict: unknown fields and other types are refused by name."""
