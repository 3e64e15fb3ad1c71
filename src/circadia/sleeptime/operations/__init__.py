"""The operations: each plans steps over new episodes and proposes changes; see `proposals/operation.py`."""
