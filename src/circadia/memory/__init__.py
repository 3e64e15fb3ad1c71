"""Memory: banks with episodes, notes and blocks, their search, and the context built from them.

The hot path only appends and reads, without a model call; the sleep tier writes what is derived.
"""
