"""Robot Framework keywords: one class per library, which converts and delegates."""
