"""REST endpoints for threads, messages and inboxes."""
