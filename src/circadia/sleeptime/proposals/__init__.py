"""What an operation reads and how it proposes changes."""
