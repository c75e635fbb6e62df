"""Lists of op kinds that are safe in 16 bits, and traits by which they are priced: data.

In: the name of a rule set and a 16-bit dtype; out: a `RuleSet` with its lists and traits. The door is `RULE_SETS`.
The lists for TensorFlow are edited in `documented`, those for JAX in `jax_lists`. A set named after a TensorFlow
release is a record of that release and never changes.
"""

from functools import cache
from importlib.resources import files
from types import MappingProxyType

from mixdown.rules.documented import DOCUMENTED
from mixdown.rules.jax_lists import JAX
from mixdown.rules.rule_set import Category, RuleSet
from mixdown.rules.tensorflow_releases import TF_2_19, TF_2_21
from mixdown.rules.traits import Traits

__all__ = ["HOSTS", "RULE_SETS", "Category", "RuleSet", "Traits", "known_kinds", "rule_sets_for"]

HOSTS = MappingProxyType({"TensorFlow": "tensorflow_kinds.txt", "JAX": "jax_primitives.txt"})
"""Whose kinds there are -> the file that names them."""

RULE_SETS = MappingProxyType({"documented": DOCUMENTED, "tf-2.19": TF_2_19, "tf-2.21": TF_2_21, "jax": JAX})
"""Name of the rule set -> low dtype -> rules."""


def rule_sets_for(host: str) -> list[str]:
    """The names of the rule sets whose kinds are a host's."""
    return sorted(name for name, rules in RULE_SETS.items() if all(each.host == host for each in rules.values()))


@cache
def known_kinds(host: str) -> frozenset[str]:
    """Every kind that TensorFlow 2.21, or JAX 0.10, has or a rule set names: what a policy may name."""
    return frozenset(files(__package__).joinpath(HOSTS[host]).read_text("utf-8").split())
