"""The numerics tools on TensorFlow: probed copies of functions, run once in their place. Start with `runs.Run`.

`trees` copies a function with all it calls, `probes` writes probes into the copies, `boundary` runs them instead of the
originals, and `state` puts every variable back. `locate`, `statistics`, `compare`, `calibrate` and `bisect` are each
one kind of probe and what is made of its records.
"""
