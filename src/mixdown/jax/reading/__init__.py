"""Jaxprs into a `Graph`. In: a closed jaxpr; out: a `ProgramReading`, the graph with the sites of every equation.

The door is `read`. Every equation with a float32 port becomes an op; calls are entered as if they were not there; each
value that a loop or a condition passes on is a site of its own. What the reader does not know becomes one op of its
kind, which stays float32 because no list names it.
"""
