"""Plans written down: a `Reading` and a `Plan` come in, rewritten copies of the protos go out. Nothing is decided here.

The doors are `rewrite_graph_def` for graphs and `rewrite_function` for functions; both use `apply`.
"""
