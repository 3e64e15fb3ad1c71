"""REST endpoints for banks, episodes, blocks, search and transfer."""
