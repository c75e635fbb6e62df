"""Which plan of a function is fastest, found out by the calls that are made anyway. Pure: hosts run and time the calls.

In come a plan and the seconds that calls took; out come the candidate for the next call and, in the end, the one that
is kept. The door is `tuner.Tuner`; `memory.recall` and `memory.store` keep what it found out for the next run.
"""
