"""Random programs, settings and policies, as hypothesis draws them. Start with `programs`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.reliability.fuzz_programs import BASE, Call, Case, Cond, Loop, Map, Program, Read, Say, Step, Store
from tests.reliability.fuzz_verbs import GROUPS

from mixdown.core import Level, Policy
from mixdown.rules import Category, rule_sets_for
from mixdown.rules.rule_set import kinds

SHARES = {"allow": 9, "infer": 6, "clear": 6, "deny": 3, "unlisted": 2, "other": 3}
KINDS = sorted(
    kinds("""
        AddV2 ArgMax AvgPool BiasAdd BiasAddGrad Cast ConcatV2 Conv2D Conv2DBackpropFilter Erf Exp FusedBatchNormV3
        FusedBatchNormGradV3 GatherV2 Greater Identity LogSoftmax MatMul MaxPool MaxPoolGrad Mean Mul Pack
        PartitionedCall Relu ReluGrad Reshape SelectV2 Sin Softmax SquaredDifference StatelessIf StridedSlice Sum Tanh
        TanhGrad TensorListGetItem Tile Transpose Unpack While
    """)
)
"""Kinds that a policy may put on another list; some cannot be low at all, which must not matter."""


@dataclass(frozen=True)
class Setting:
    """How a program is run."""

    batch: int = 2  # at least 1: of none, TensorFlow's own depthwise gradient is whatever was in memory
    seed: int = 0
    unknown: bool = False  # leave the size of the batch open
    compiled: bool = False  # by XLA
    tape: str = ""  # where gradients are recorded: "inside" the function, "outside" of it, or not at all


def says(*, compiled: bool) -> st.SearchStrategy[Say]:
    """Draw plain steps, each group of verbs by its share."""
    names = [
        name
        for group, share in SHARES.items()
        for name in _spread([name for name, verb in GROUPS[group].items() if verb.compiles or not compiled], share)
    ]
    return st.builds(Say, st.sampled_from(names), st.integers(0, BASE**3 - 1))


def _spread(names: Sequence[str], share: int) -> list[str]:
    """The names, each as often as its group's share allows."""
    return list(names) * max(1, share * 10 // len(names))


def steps(*, compiled: bool, stores: bool) -> st.SearchStrategy[tuple[Step, ...]]:
    """Draw the steps of a program: about one in five has steps inside, and some of those again."""
    say = says(compiled=compiled)
    plain = st.lists(say, min_size=1, max_size=4).map(tuple)
    inner = st.lists(say | blocks(plain), min_size=1, max_size=4).map(tuple)
    variable: list[st.SearchStrategy[Any]] = [st.just(Read()), *[st.builds(Store, st.integers(0, 2))] * stores]
    step = st.integers(0, 11).flatmap(lambda die: [blocks(inner), st.one_of(variable)][die % 2] if die > 8 else say)
    return st.lists(step, min_size=2, max_size=9).map(tuple)


def blocks(body: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Draw steps that have steps inside."""
    return st.one_of(
        st.builds(Call, body),
        st.builds(Cond, st.sampled_from(["flag", "flag", "guess"]), body, body),
        st.builds(Case, st.lists(body, min_size=2, max_size=3).map(tuple)),
        st.builds(Loop, body),
        st.builds(Map, body),
    )


def programs(*, compiled: bool = False, stores: bool = True) -> st.SearchStrategy[Program]:
    """Draw programs; compiled ones hold no strings."""
    return st.builds(Program, steps(compiled=compiled, stores=stores), st.integers(0, 1))


def settings_of(*, compiled: bool, tapes: Sequence[str]) -> st.SearchStrategy[Setting]:
    """Draw how to run a program."""
    return st.builds(
        Setting,
        batch=st.integers(1, 3),
        seed=st.integers(0, 2**16),
        unknown=st.booleans(),
        compiled=st.just(compiled),
        tape=st.sampled_from(tapes),
    )


def policies() -> st.SearchStrategy[Policy]:
    """Draw policies that let the CPU take part, over every rule set, low dtype and strategy."""
    return st.builds(
        _policy,
        low=st.sampled_from(["float16", "bfloat16"]),
        rules=st.sampled_from(rule_sets_for("TensorFlow")),
        strategy=st.sampled_from(["optimal", "grappler"]),  # tuned, it is one of these
        devices=st.sampled_from(["all", ("CPU",), ("GPU", "CPU")]),
        level=st.sampled_from([Level.DEFAULT] * 4 + list(Level)),
        changes=st.dictionaries(st.sampled_from(KINDS), st.sampled_from(Category), max_size=3),
        named=st.dictionaries(st.integers(0, 9), st.sampled_from(Category), max_size=1),
    )


def _policy(changes: dict[str, Category], named: dict[int, Category], **fields: Any) -> Policy:
    """A policy with kinds and steps on other lists."""
    policy = Policy(**fields)
    for kind, category in changes.items():
        policy = _with(policy, category)(kind)
    for step, category in named.items():
        policy = _with(policy, category)(name=f"sx{step}(/|$)")
    return policy


def _with(policy: Policy, category: Category) -> Any:
    """The method that puts ops into a category."""
    return getattr(policy, f"with_{'keep' if category is Category.BARRIER else category.value}")
