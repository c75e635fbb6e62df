"""Input that may be hostile: names from graphs, JSON files, paths of models. Pure, and below all other rooms.

In come text, what JSON holds, and paths; out come text that is safe to print (`escaped.escaped`), JSON of limited depth
(`json_text.parsed`), dataclasses whose every field has the annotated type (`typed.from_json_data`), and what kind of
model lies at a path (`model_files.kind_of`).
"""
