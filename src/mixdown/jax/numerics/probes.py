"""A program run with probes: `Probed` traces it again and carries a `ProbeRecord` through calls, loops and shards."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from mixdown.jax.numerics.probe_record import Frame, ProbeRecord, earliest, nothing_yet
from mixdown.jax.numerics.sites import Path, sites_of
from mixdown.jax.private import AsTraced, bind, manual_axes
from mixdown.jax.reading.equations import CALLS, called, is_literal, opened

Values = list[Any]


class Probed:
    """A program with probes, by its closed jaxpr and the names of its arguments."""

    def __init__(self, closed: Any, arguments: Sequence[str]) -> None:
        self.closed = closed
        self.sites = sites_of(closed, arguments)
        self._numbers = {path: number for number, path in enumerate(self.sites.equations)}
        self._entered: dict[str, Callable[[Any, Path, Values, Frame], Values]] = {
            **dict.fromkeys(CALLS, self._call),
            "shard_map": self._shard_map,
            "scan": self._scan,
            "while": self._while,
            "cond": self._cond,
        }

    def __call__(self, *arguments: Any) -> tuple[Values, ProbeRecord]:
        """What the program returns, and what the probes found; to be called under jit."""
        frame = Frame(nothing_yet(len(self._numbers)))
        results = self._run(self.closed.jaxpr, self.closed.consts, arguments, (), frame)
        return results, frame.settle()

    def _run(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], path: Path, frame: Frame) -> Values:
        """The results of a jaxpr."""
        values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

        def value(atom: Any) -> Any:
            return jnp.asarray(atom.val, atom.aval.dtype) if is_literal(atom) else values[atom]

        for number, equation in enumerate(jaxpr.eqns):
            at, operands = (*path, number), [value(atom) for atom in equation.invars]
            entered = self._entered.get(equation.primitive.name)
            with AsTraced(equation):
                results = (entered or self._plain)(equation, at, operands, frame)
            values.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def _plain(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        results = bind(equation.primitive, operands, equation.params)
        results = list(results) if equation.primitive.multiple_results else [results]
        if path in self._numbers:
            frame.observe(self._numbers[path], operands, results, _agreement(equation, frame.axes))
        return results

    def _call(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        jaxpr, consts = called(equation)
        return self._run(jaxpr, consts, operands, (*path, 0), frame)

    def _body(self, body: Any, path: Path, frame: Frame) -> Callable[..., tuple[Values, ProbeRecord]]:
        """A jaxpr as a function of a finding, a round and its arguments that returns results and the finding after."""
        jaxpr, consts = opened(body)

        def run(finding: ProbeRecord, round: Any, *arguments: Any) -> tuple[Values, ProbeRecord]:  # noqa: A002 - of a loop
            inner = Frame(finding, round, frame.axes)
            results = self._run(jaxpr, consts, arguments, path, inner)
            return [_strong(value) for value in results], inner.settle()

        return run

    def _scan(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        params = equation.params
        fixed, carried = params["num_consts"], params["num_carry"]
        body = self._body(params["jaxpr"], (*path, 0), frame)

        def step(carry: Any, slices: Values) -> Any:
            values, finding, round_ = carry
            results, finding = body(finding, round_, *operands[:fixed], *values, *slices)
            return (results[:carried], finding, round_ + 1), results[carried:]

        start = [_strong(value) for value in operands[fixed : fixed + carried]], frame.settle(), _first(frame)
        (values, frame.finding, _), stacked = lax.scan(
            step, start, operands[fixed + carried :], params["length"], params["reverse"], params["unroll"]
        )
        return [*values, *stacked]

    def _while(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        params = equation.params
        tests, works = params["cond_nconsts"], params["body_nconsts"]
        test = self._body(params["cond_jaxpr"], (*path, 0), frame)
        work = self._body(params["body_jaxpr"], (*path, 1), frame)

        def tested(values: Values, finding: ProbeRecord, round_: Any) -> Any:
            (goes_on,), finding = test(finding, round_, *operands[:tests], *values)
            return goes_on, values, finding, round_

        def step(carry: Any) -> Any:
            _, values, finding, round_ = carry
            values, finding = work(finding, round_, *operands[tests : tests + works], *values)
            return tested(values, finding, round_ + 1)

        start = tested([_strong(value) for value in operands[tests + works :]], frame.settle(), _first(frame))
        _, values, frame.finding, _ = lax.while_loop(lambda carry: carry[0], step, start)
        return list(values)

    def _cond(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        index, *rest = operands
        branches = [self._body(body, (*path, at), frame) for at, body in enumerate(equation.params["branches"])]
        results, frame.finding = lax.switch(
            jnp.asarray(index, jnp.int32), branches, frame.settle(), jnp.asarray(frame.round, jnp.int32), *rest
        )
        return list(results)

    def _shard_map(self, equation: Any, path: Path, operands: Values, frame: Frame) -> Values:
        params = equation.params
        axes = tuple(name for name in params["mesh"].axis_names if name in manual_axes(params))
        body = self._body(params["jaxpr"], (*path, 0), Frame(frame.finding, axes=(*frame.axes, *axes)))

        def run(*arguments: Any) -> Any:
            start, round_ = nothing_yet(len(self._numbers)), jnp.int32(0)
            if params["check_vma"]:
                vary = partial(lax.pcast, to="varying") if hasattr(lax, "pcast") else lax.pvary
                start, round_ = jax.tree.map(lambda leaf: vary(leaf, axes), (start, round_))
            results, finding = body(start, round_, *arguments)
            return tuple(results), jax.tree.map(lambda leaf: leaf[None], finding)

        before = frame.settle()
        results, shards = jax.shard_map(
            run,
            mesh=params["mesh"],
            in_specs=tuple(params["in_specs"]),
            out_specs=(tuple(params["out_specs"]), PartitionSpec(axes)),
            axis_names=frozenset(axes),
            check_vma=params["check_vma"],
        )(*operands)
        frame.finding = earliest(before, shards)
        return list(results)


def _first(frame: Frame) -> Any:
    """The number of the first round of a loop, as far spread over shards as what is found there."""
    return jnp.zeros_like(frame.finding.clock)


def _strong(value: Any) -> Any:
    """A value whose dtype is its own, not a guess from a Python number."""
    return lax.convert_element_type(value, value.dtype) if jnp.issubdtype(value.dtype, jnp.number) else value


def _agreement(equation: Any, axes: tuple[str, ...]) -> Any:
    """For an equation that reads other shards: what makes a condition hold only if it does on all of them."""
    named = equation.params.get("axes", equation.params.get("axis_name", ()))
    over = tuple(name for name in (named if isinstance(named, tuple) else (named,)) if name in axes)
    return (lambda sound: lax.pmin(sound.astype(jnp.int32), over) == 1) if over else None
