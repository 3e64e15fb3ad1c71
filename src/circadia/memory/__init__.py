"""Memory: banks with episodes, notes and blocks; what finds them; the context that they make.

The hot path appends and reads, without any model call; what is derived, the sleep tier writes.
"""
