"""The numerics tools on TensorFlow: they run a user's step with probes in it, and say where its numbers go wrong.

What comes in is a step, what to call it with, and a policy; what goes out are the results of `mixdown.numerics` (a
location, statistics, a comparison, a policy). Each tool is a door, in the module of its name; `probing` runs the step.
"""
