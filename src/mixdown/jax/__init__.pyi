# The public names, for type checkers and editors, which cannot follow `__getattr__`. A test holds it in step.

from mixdown.core import Policy as Policy
from mixdown.jax.explaining import explain as explain
from mixdown.jax.explaining import report as report
from mixdown.jax.explaining import rewritten_jaxpr as rewritten_jaxpr
from mixdown.jax.functions import rewrite as rewrite
from mixdown.jax.loss_scaling import LossScale as LossScale
from mixdown.jax.loss_scaling import all_finite as all_finite
from mixdown.jax.loss_scaling import scaled as scaled
from mixdown.jax.loss_scaling import value_and_grad as value_and_grad
from mixdown.jax.numerics import compare as compare
from mixdown.jax.numerics import locate as locate
from mixdown.jax.switch import disable as disable
from mixdown.jax.switch import enable as enable
from mixdown.jax.switch import rewriting as rewriting

__all__: list[str]  # noqa: PYI035 - the package computes it
