"""Ops that a layer spells out one by one, put onto the single op that TensorFlow has for them.

Functions and graphs come in; copies with fewer ops go out, and a record of what went where. The door is `fused`.
"""
