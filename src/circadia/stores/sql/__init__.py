"""One schema, one file of statements per noun, for both dialects."""
