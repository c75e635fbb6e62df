"""The lists against TensorFlow's registry: the names are ops, and the additions can be low at all."""

from __future__ import annotations

import pytest

# Private: TensorFlow offers no public list of its ops. Checked on 2.16 to 2.21.
from tensorflow.python.framework import op_def_registry
from tests.rules.test_rule_sets import NOT_IN_THE_WHEEL

from mixdown.rules import RULE_SETS, known_kinds
from mixdown.rules.documented import MISSED_ARITHMETIC, MISSED_MOVES, MISSED_PRODUCTS
from mixdown.tensorflow.protos.kernels import registered_kernels
from mixdown.tensorflow.protos.signatures import LOW_TYPES, kind_of

ADDITIONS = sorted(MISSED_ARITHMETIC | MISSED_MOVES | MISSED_PRODUCTS)


def test_every_listed_kind_is_an_op_of_tensorflow() -> None:
    ours = [rules for both in RULE_SETS.values() for rules in both.values() if rules.host == "TensorFlow"]
    listed = {kind for rules in ours for kind in rules.categories}
    assert {kind for kind in listed if op_def_registry.get(kind) is None} == NOT_IN_THE_WHEEL


def test_known_kinds_are_what_tensorflow_registers_and_what_the_lists_name() -> None:
    op_def_registry.sync()
    known = known_kinds("TensorFlow")
    registered = {kind for kind in known if op_def_registry.get(kind) is not None}
    assert known - registered == NOT_IN_THE_WHEEL
    assert {"MatMul", "TensorListPushBack", "_FusedBatchNormEx", "StatefulPartitionedCall"} <= registered


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_addition_of_ours_exists_and_is_defined_in_16_bits(kind: str, low: str) -> None:
    definition = kind_of(kind)
    assert definition is not None
    data = [a for a in definition.definition.attr if a.type == "type" and a.name in ("T", "Ta", "Tb", "Tout")]
    assert data
    assert all(not a.allowed_values.list.type or LOW_TYPES[low] in a.allowed_values.list.type for a in data)
    assert registered_kernels(kind)
