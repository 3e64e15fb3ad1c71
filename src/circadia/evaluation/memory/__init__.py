"""Whether answers are right because of memory, on long talks with questions."""
