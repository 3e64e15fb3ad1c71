"""Models of the sleep tier, and the small one that runs on this machine."""
