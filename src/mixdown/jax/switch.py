"""Mixed precision for every jitted program (`enable`, `disable`), or for a block of code (`rewriting`)."""

from collections.abc import Iterator
from contextlib import contextmanager

from mixdown.core import Policy
from mixdown.errors import PolicyError
from mixdown.jax import private
from mixdown.jax.lowering import in_force, install
from mixdown.jax.programs import policy_for_jax
from mixdown.messages import warn


def enable(policy: Policy | None = None) -> None:
    """Run the safe, expensive ops of every program that is jitted from now on in 16 bits.

    It acts where JAX lowers a program, after tracing and differentiation: `jax.grad`, `jax.make_jaxpr` and
    `jax.export` see float32, and Keras, flax, equinox and whatever else calls `jax.jit` works without a change.

    Args:
        policy: what may run in 16 bits, and where. By default bfloat16, on GPUs and TPUs. float16 needs loss scaling.

    Raises:
        MixdownError: this JAX is not one that mixdown can hook into.
    """
    private.set_for_all_threads(in_force(), _installed(policy))


def disable() -> None:
    """Run every program as it was before `enable`, bit for bit; what was compiled then is used again."""
    if in_force().value is None:
        warn("Mixed precision is not enabled for JAX: there is nothing to disable.")
        return
    private.set_for_all_threads(in_force(), None)


@contextmanager
def rewriting(policy: Policy | None = None) -> Iterator[None]:
    """Run the programs that this thread calls inside the `with` block in mixed precision, and no others.

    Args:
        policy: what may run in 16 bits, and where. By default bfloat16, on GPUs and TPUs.

    Returns:
        A context manager, for a `with` statement; it gives nothing.

    Raises:
        MixdownError: this JAX is not one that mixdown can hook into.
    """
    with in_force()(_installed(policy)):
        yield


def _installed(policy: Policy | None) -> Policy:
    """The policy for JAX, which must not be one that is tuned, once the hook is in place."""
    chosen = policy_for_jax(policy)
    if chosen.strategy == "tuned":
        raise PolicyError(
            "strategy='tuned' times calls, and programs that JAX has compiled are called without mixdown. Wrap the "
            "step itself: step = mixdown.jax.rewrite(jax.jit(step), policy)."
        )
    install()
    return chosen
