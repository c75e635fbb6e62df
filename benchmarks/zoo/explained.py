"""Why some programs end farther from float32 than another seed does: a sentence each, found by looking."""

EXPLAINED = {
    "VAE": "The noise of every step is drawn anew: while the loss scale fell from its start, two steps were skipped, "
    "and those that were taken met other noise.",
    "deepctr xDeepFM": "Its embeddings begin at about 1e-4 and it multiplies them with each other: products of 1e-8 "
    "are zero in float16, before any loss scale, while Adam takes whole steps by gradients of that size in float32. "
    "bfloat16, which holds them, stays within 0.002 of float32.",
}
