"""How TensorFlow writes graphs down: GraphDefs, FunctionDefs, their nodes, types, wires and files.

In come protos, out come views of them that other rooms can compute with. Start with `bodies.Body` for one graph or
function, `signatures.kind_of` for the ports of a node, and `wiring.WiredBody` for what is connected to what.
"""
