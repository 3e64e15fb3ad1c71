"""Import and export of banks: the format of the lines, what reads and writes a bank by it, others' formats."""
