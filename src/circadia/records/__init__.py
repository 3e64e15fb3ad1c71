"""Frozen rows, their status enums and transition tables; one noun a file. They know nothing of SQL or HTTP."""
