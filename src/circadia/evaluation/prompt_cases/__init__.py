"""The prompts of the sleep tier on made-up cases, whose answers are checked by rules."""
