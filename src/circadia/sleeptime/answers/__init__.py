"""What a pass asks models for ready answers: predictions, answers, verdicts and samples."""
