"""Models of the sleep tier, and a small one that runs on this machine."""
