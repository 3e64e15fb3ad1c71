"""What passes may spend, what they spend, and what they save."""
