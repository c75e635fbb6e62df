"""One run of a step with probes: copies of the functions it calls, with nodes added that send out what they see.

What comes in is a probe (of `health`, `counts` or `values`), a policy and the step; what goes out is what the step
returns, and in the probe what it saw. `runs.Run` is the door; `runs.kept` puts variables back afterwards.
"""
