"""The gate, and the doors of models and tools behind it."""
