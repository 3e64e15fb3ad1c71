"""Output, confirmation and lazy loading of commands."""
