"""Lists of op kinds that are safe in 16 bits, and traits by which they are priced: data, edited in `documented`.

In: the name of a rule set and a 16-bit dtype; out: a `RuleSet` with its lists and traits. The door is `RULE_SETS`.
A set named after a TensorFlow release is a record of that release and never changes.
"""

from functools import cache
from importlib.resources import files
from types import MappingProxyType

from mixdown.rules.category import Category
from mixdown.rules.documented import DOCUMENTED
from mixdown.rules.rule_set import RuleSet
from mixdown.rules.tensorflow_releases import TF_2_19, TF_2_21
from mixdown.rules.traits import Traits

__all__ = ["RULE_SETS", "Category", "RuleSet", "Traits", "known_kinds"]

RULE_SETS = MappingProxyType({"documented": DOCUMENTED, "tf-2.19": TF_2_19, "tf-2.21": TF_2_21})
"""Name of the rule set -> low dtype -> rules."""


@cache
def known_kinds() -> frozenset[str]:
    """Every kind that TensorFlow 2.21 registers or a rule set names: what a policy may name."""
    return frozenset(files(__package__).joinpath("tensorflow_kinds.txt").read_text("utf-8").split())
