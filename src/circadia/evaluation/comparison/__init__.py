"""Compare arms on a data set: prompts, grading, measures."""
