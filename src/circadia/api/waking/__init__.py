"""REST endpoints for wakes, pulses, chains and direct messages."""
