"""A plan, or a run, for people."""
