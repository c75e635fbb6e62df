"""What a policy says of a kind of op."""

from enum import Enum


class Category(Enum):
    """How safe a kind is in 16 bits, and what it does to its neighbours."""

    ALLOW = "allow"  # always low: fast there and numerically safe
    DENY = "deny"  # never low, and what follows it through infer and clear ops is not low either
    INFER = "infer"  # low, unless it follows a deny op
    CLEAR = "clear"  # numerically neutral: does as its neighbours do
    BARRIER = "barrier"  # on no list: never low, and nothing spreads through it
