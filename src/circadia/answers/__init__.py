"""Ready answers: expected questions, answered ahead, and found again when they are asked."""
