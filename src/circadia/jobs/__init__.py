"""What durable work has in common, whatever is worked on."""
