"""Calls of tf.functions: while a policy is in force, a rewritten copy of the function (its twin) runs in its place.

What comes in is a policy (`active_policy`) and every call that TensorFlow's eager context makes; what goes out is the
same call, of the twin. `call_hook` is the door: `install` puts the hook in, `observed` hands calls to an observer.
"""
