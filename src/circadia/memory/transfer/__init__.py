"""Import and export of banks: the line format, its reader and writer, and formats of other systems."""
