"""REST endpoints for passes, their status and ready answers."""
