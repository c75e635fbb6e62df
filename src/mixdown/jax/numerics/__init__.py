"""The numerics tools on JAX: they run a program with probes in it, or twice, and say where its numbers go wrong.

What comes in is a function and its arguments; what goes out are the results of `mixdown.numerics`. The doors are
`locate`, which finds the first op that made Inf or NaN in one jitted run, and `compare`, against float32.
"""

from mixdown.jax.numerics.compare import compare
from mixdown.jax.numerics.locate import locate

__all__ = ["compare", "locate"]
