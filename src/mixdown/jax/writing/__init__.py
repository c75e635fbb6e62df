"""A plan onto a jaxpr. In: a `ProgramReading` and the paint of its sites; out: a closed jaxpr that JAX runs instead.

The door is `written`. Equations are taken over one after the other, with operands in the dtypes that the plan gives to
their sites; JAX infers the types of what changed. Nothing is decided here, and nothing is traced but functions with
derivative rules of their own and functions that are mapped over shards.
"""
