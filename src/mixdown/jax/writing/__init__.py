"""A plan onto a jaxpr. In: a `ProgramReading` and the paint of its sites; out: a function that JAX traces again.

The door is `written`. The function runs the equations one after the other in the dtypes that the plan gives to their
sites, so that JAX itself infers every type again; nothing is decided here.
"""
