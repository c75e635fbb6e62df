"""`mixdown.jax.locate`: the first op that made Inf or NaN of finite inputs, found in one jitted run."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from mixdown.core import Policy
from mixdown.jax.numerics.compare import TracedCall, as_they_are, chosen
from mixdown.jax.numerics.probe_record import MOST_PORTS, NOTHING, ProbeRecord
from mixdown.jax.numerics.probes import Probed
from mixdown.jax.numerics.sites import ProbedEquation
from mixdown.numerics.location import Location, Range
from mixdown.rules.formats import FORMATS

MOST_OTHERS = 8
"""Further ops that are named."""

AS_WRITTEN = {"xla_allow_excess_precision": False}
"""By default XLA leaves out casts to 16 bits whose result it widens again, and with them what overflows there."""


def locate(fn: Callable[..., Any], *args: Any, policy: Policy | None = None) -> Location | None:
    """Run a function once more, with probes, and name the first op that made Inf or NaN of finite inputs.

    It runs jitted, as the policy has it rewritten. Ops inside scan, while, cond, remat, shard_map and custom rules for
    derivatives are probed too. If the op ran in 16 bits, a second run in float32 tells whether that overflows as well.

    Args:
        fn: any function that JAX can trace, jitted or not: a training step, or its loss.
        args: what to call it with.
        policy: what may run in 16 bits; by default the policy in force, or else the default policy.

    Returns:
        The op, None if everything stayed finite.
    """
    program = TracedCall(fn, args)
    probed = Probed(program.rewritten(chosen(policy)), program.argument_names)
    results, finding = _run(probed, program)
    if int(finding.first.site) == NOTHING:
        return _came_in(program, results)
    return _located(probed, finding, program)


def _located(probed: Probed, finding: ProbeRecord, program: TracedCall) -> Location:
    """What the probes found, in the words of the program. Of a cast, the op that reads it is named."""
    sites, number = list(probed.sites.equations.values()), int(finding.first.site)
    found = sites[number]
    reader = probed.sites.reader(number) if found.narrows else None
    named = reader or found
    bad = [each.name for each, seen in zip(sites, finding.seen, strict=False) if seen and each is not found]
    results = [found.name] * len(found.equation.outvars)
    return Location(
        op=named.name,
        kind=named.kind,
        function=program.name,
        dtype=found.dtype,
        inputs=_ranges(found.reads, found.equation.invars, finding.first.numbers[:MOST_PORTS]),
        outputs=_ranges(results, found.equation.outvars, finding.first.numbers[MOST_PORTS:]),
        layer=named.layer,
        source=named.line,
        float32=False if found.narrows else _also_in_float32(found, program),
        cast=found.reads[0] if reader else "",
        iteration=int(finding.first.round),
        others=tuple(bad[:MOST_OTHERS]),
    )


def _run(probed: Probed, program: TracedCall) -> tuple[Any, ProbeRecord]:
    with as_they_are():  # it is rewritten already
        return jax.device_get(jax.jit(probed, compiler_options=AS_WRITTEN)(*program.arguments))


def _also_in_float32(found: ProbedEquation, program: TracedCall) -> bool | None:
    """Whether the same op makes Inf or NaN of finite inputs in float32 too; None if the program has it in 16 bits."""
    if found.dtype not in FORMATS:
        return True
    probed = Probed(program.original, program.argument_names)
    _, finding = _run(probed, program)
    pairs = zip(probed.sites.equations.values(), finding.seen, strict=False)
    same = [bool(seen) for each, seen in pairs if each.name == found.name and each.dtype == "float32"]
    return any(same) if same else None


def _came_in(program: TracedCall, results: Sequence[Any]) -> Location | None:
    """The argument that was not finite to begin with, if that made a result not finite."""
    if all(map(_is_finite, results)):
        return None
    for name, value in zip(program.argument_names, program.arguments, strict=True):
        if not _is_finite(value):
            return Location(name, "argument", program.name, str(np.asarray(value).dtype), came_in=True)
    return None


def _is_finite(value: Any) -> bool:
    array = np.asarray(value) if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended) else np.zeros([])
    return not jax.dtypes.issubdtype(array.dtype, np.inexact) or bool(np.isfinite(array).all())


def _ranges(names: Sequence[str], variables: Sequence[Any], numbers: Any) -> tuple[Range, ...]:
    """The ranges of the floats among an equation's operands or results."""
    floats = [
        pair for pair in zip(names, variables, strict=True) if jax.dtypes.issubdtype(pair[1].aval.dtype, np.inexact)
    ]
    return tuple(_range(*pair, row) for pair, row in zip(floats, np.asarray(numbers), strict=False))


def _range(name: str, variable: Any, row: Any) -> Range:
    lowest, highest, infs, nans = row.tolist()
    low, high = (None, None) if lowest > highest else (lowest, highest)  # no number is finite
    return Range(name, str(variable.aval.dtype), tuple(variable.aval.shape), low, high, int(infs), int(nans))
