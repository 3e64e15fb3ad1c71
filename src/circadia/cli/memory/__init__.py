"""Banks, episodes, blocks, searches, and transfer."""
