"""Shapes of values, inferred without running anything that could take long or read files.

The commonest kinds have shape functions here; TensorFlow is asked for the others.

In come bodies with their wires (`protos.wiring.WiredBody`) and the variables among their arguments
(`variable_handles`), out comes the shape of each value. The door is `inference.Shapes`.
"""
