"""`mixdown.numerics.statistics`: the numbers of every tensor that becomes 16-bit, measured in float32."""

from collections.abc import Callable, Iterable
from typing import Any

from mixdown.core import Policy
from mixdown.errors import MixdownError
from mixdown.numerics.range_statistics import Statistics
from mixdown.numerics.tally import MeasuredTensor
from mixdown.tensorflow.numerics.probing.counts import Counts
from mixdown.tensorflow.numerics.probing.runs import Run, chosen_policy, kept


def statistics(
    step_fn: Callable[..., Any], *args: Any, steps: int = 1, policy: Policy | None = None, loss_scale: float = 1.0
) -> Statistics:
    """Measure the tensors that a policy makes 16-bit, in float32, as if they were in float16 and in bfloat16.

    Variables are bit for bit as before afterwards; between the steps they change as the steps change them.

    Args:
        step_fn: a tf.function, or any function that calls some.
        args: what to call it with.
        steps: how often to call it.
        policy: what may run in 16 bits; by default the policy in force, or else the default policy.
        loss_scale: the scale that the step's gradients carry already.

    Returns:
        The ranges of every tensor, and how much of it each 16-bit dtype would lose: print it, or save it as a page.

    Raises:
        MixdownError: the step calls no tf.function that could be probed, or `steps` is below 1.
    """
    if steps < 1:
        raise MixdownError(f"Statistics need at least one step, got steps={steps}.")
    policy, _ = chosen_policy(policy)
    counts = Counts()
    count(counts, step_fn, [args] * steps, policy)
    rows = [MeasuredTensor(*key, tally) for key, tally in counts.tallies.items()]
    rows.sort(key=lambda row: _badness(row, policy.low))
    return Statistics(policy.low, steps, float(loss_scale), tuple(rows))


def count(counts: Counts, step_fn: Callable[..., Any], batches: Iterable[tuple[Any, ...]], policy: Policy) -> None:
    """Call a step on every batch, in float32, and count what it makes; variables are as before afterwards."""
    with kept(), Run(counts, policy, full=True) as run:
        for batch in batches:
            run(step_fn, *batch)


def _badness(row: MeasuredTensor, low: str) -> tuple[float, float, float, str]:
    """A sort key: tensors that overflow come first, then those flushed to zero, then those that lose digits."""
    losses, share = row.losses(low), row.tally.share
    return (-share(losses.overflowed), -share(losses.flushed), -share(losses.subnormal), row.name)
