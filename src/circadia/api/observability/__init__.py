"""REST endpoints for events, holds and usage."""
