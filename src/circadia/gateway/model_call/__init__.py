"""A model call from its door to its record: door, hold, prepare, send, answer, record. Each is one file."""
