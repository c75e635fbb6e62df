"""Protos into the planner's Graph.

In come a graph or function, the functions it may call and a policy; out comes a `Reading`: a `core.Graph` and the way
back from its ops and tensors to nodes. The door is `read.read`; `products.products` lists the matrix products of one.
"""
