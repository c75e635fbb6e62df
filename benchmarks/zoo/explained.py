"""Why some programs end farther from float32 than another seed does: a sentence each, found by looking."""

EXPLAINED: dict[str, str] = {}
