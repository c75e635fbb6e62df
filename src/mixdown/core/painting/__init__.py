"""The stages that give every site its paint. In: a `PolicyView`; out: the strokes of every site, the last one final.

The door is `strategies.paint`, and `strategies.STRATEGIES` is the algorithm: two lists of stages, one a strategy.
"""
