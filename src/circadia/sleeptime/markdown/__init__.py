"""Dreams over Markdown memory folders: the file form of a bank, as coding agents keep it."""
