"""The fast upstream and the load generator: in C, and in Python for machines without a compiler."""
