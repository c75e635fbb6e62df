"""Input that may be hostile: names from graphs, and JSON files. Pure, and below all other rooms.

In come text and what JSON holds; out come text that is safe to print (`escaped.escaped`), JSON of limited depth
(`json_text.parsed`) and dataclasses whose every field has the annotated type (`typed.from_json_data`).
"""
