"""The operations: each plans steps over what is new and proposes changes; `operation.py` says what it owes."""
