"""The session boundary: a `tf.compat.v1.Session` runs a twin of its graph, in which some nodes compute in 16 bits.

The door is `hook.install`, which is given the policy to follow; `hook.seen` returns the sessions met, with their plans.
"""
