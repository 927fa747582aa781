"""The hub: puts cases, methods and truth together, and judges every result."""
