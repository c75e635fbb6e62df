"""What mixed precision does to a function, before it runs (`explain`), and what it did in this process (`report`)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from mixdown import __version__, messages
from mixdown.core import Policy
from mixdown.jax import private
from mixdown.jax.functions import Traced, name_of
from mixdown.jax.loss_scaling.loss_scale import loss_scale_in
from mixdown.jax.lowering import Lowered, policy_in_force, seen
from mixdown.jax.programs import DEFAULT, Program, plan_program, policy_for_jax, takes_part
from mixdown.jax.warnings import idle_warning
from mixdown.reports import Facts, Report, graph_report
from mixdown.reports.model import GraphReport, ScalerReport, omission
from mixdown.rules.spellings import EVERY_DEVICE
from mixdown.scaling.step_record import readable_records

AS_IF = (
    "As if all devices took part: no policy was given and none is in force. Pass policy=mixdown.Policy(rules='jax') to "
    "see what a policy does on this machine."
)


def explain(function: Callable[..., Any], *args: Any, policy: Policy | None = None, **kwargs: Any) -> Report:
    """Say what the rewrite does to a function, op by op and cast by cast. The function is traced, and nothing is run.

    Args:
        function: what you would give to `mixdown.jax.rewrite`, by preference a whole training step; a jitted function
            will do.
        args: what it is called with: arrays, `jax.ShapeDtypeStruct`s, or pytrees of them.
        policy: what may run in 16 bits, and where. By default the policy in force; if there is none, the default one
            for all devices.
        kwargs: keyword arguments that it is called with.

    Returns:
        A report: print it, ask it `why("Dense_0/dot_general")`, or save it as a page. Ops are named by the scopes that
        they were traced in, and those of the backward pass begin with `gradients/`.
    """
    chosen = policy if policy is not None else policy_in_force()
    name = name_of(function)
    used, platform = policy_for_jax(chosen) if chosen else replace(DEFAULT, devices=EVERY_DEVICE), jax.default_backend()
    program = plan_program(Traced(function, args, kwargs).trace(), used, platform)
    idle = [f"The rule {rule.subject} of the policy matches nothing here." for rule in program.plan.idle_overrides]
    return Report(
        title=f"What mixed precision does to {name}",
        versions=_versions(),
        graphs=(_graph(name, program),),
        warnings=() if takes_part(used, platform) else (idle_warning(used, platform),),
        notes=(*([] if chosen else [AS_IF]), *idle),
    )


def rewritten_jaxpr(function: Callable[..., Any], *args: Any, policy: Policy | None = None, **kwargs: Any) -> Any:
    """The closed jaxpr that a function runs by in mixed precision, flat: arrays in, arrays out.

    Args:
        function: what you would give to `mixdown.jax.rewrite`.
        args: what it is called with, see `explain`.
        policy: what may run in 16 bits, see `explain`. Whether this machine takes part is not looked at.
        kwargs: keyword arguments that it is called with.

    Returns:
        A `jax.extend.core.ClosedJaxpr`: print it to read what runs.
    """
    chosen = policy_for_jax(policy if policy is not None else policy_in_force())
    return plan_program(Traced(function, args, kwargs).trace(), chosen, jax.default_backend()).rewritten


def report(**states: Any) -> Report:
    """Say what was rewritten in this process while mixed precision was enabled, and what was left alone.

    Args:
        states: the states of optimizers made by `mixdown.jax.scaled`, or loss scales, each by the name that the report
            gives it: `report(adam=opt_state)`. They are yours; optimizers of Keras are found without being named.

    Returns:
        A report of the programs with matrix products that were lowered, and of the scale and skipped steps of the
        states: print it, ask it why, or save it as a page.

    Raises:
        ValueError: a state holds no loss scale, or more than one.
    """
    named = [(name, loss_scale_in(state).record()) for name, state in states.items()]
    records = [*readable_records(), *named]
    return Report(
        title="Mixed precision in this process",
        versions=_versions(),
        graphs=tuple(map(_lowered, seen)),
        scalers=tuple(ScalerReport.of(*each) for each in records),
        warnings=messages.given(),
        notes=tuple(filter(None, (omission(*each) for each in records))),
    )


def _versions() -> dict[str, str]:
    return {"mixdown": __version__, "jax": jax.__version__}


def _graph(name: str, program: Program) -> GraphReport:
    lines = [private.line_of(origin) for origin in program.reading.origins]
    return graph_report(program.plan, name, "function", Facts(lines))


def _lowered(each: Lowered) -> GraphReport:
    if each.program is not None:
        return _graph(each.name, each.program)
    return GraphReport(
        each.name, "function", each.policy.low, rewritten=False, reason=each.reason, policy=each.policy.to_dict()
    )
