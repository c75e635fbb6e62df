"""The edges to TensorFlow, Keras and Python themselves: private names, tested releases, source lines, Keras's files.

Nothing here knows graphs. The doors are `private` (every private name that mixdown touches, in one table) and
`releases.refuse_untested`.
"""
