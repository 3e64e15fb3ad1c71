"""When a pass is due, and the life cycle of its row."""
