"""What the names of TensorFlow's ops say: the layer that an op belongs to, and whether it computes a gradient."""

import re
from collections.abc import Container, Iterable, Sequence
from functools import cached_property

_GRADIENT_SCOPE = re.compile(r"(?:.*/)?(?:gradient_tape|gradients)(?:_\d+)?/", re.DOTALL)
"""The scope that TensorFlow puts gradient ops into, up to the name of the op that they are a gradient of."""

_GRADIENT_SUFFIX = "_grad"
"""What TensorFlow 1 appends to that name."""


DEEPEST = 50
"""Layers are looked for in so many scopes: a file from a stranger may nest them without an end."""

_NUMBERED = re.compile(r"(.+)_\d+")
"""A name to which TensorFlow or Keras has added a number, because the name itself was taken."""
_FUNCTION = re.compile(r"__(?:inference|forward|backward)_(.+?)(?:_\d+)?", re.DOTALL)
"""The name under which TensorFlow registers a traced function: the name in Python between a prefix and a number."""


def python_name(function: str) -> str:
    """The name in Python of a traced function, given the name under which TensorFlow registered it."""
    found = _FUNCTION.fullmatch(function)
    return found[1] if found else function


def is_backward(op: str) -> bool:
    """Whether an op is a part of the backward pass."""
    return _GRADIENT_SCOPE.match(op) is not None


def layer_of(op: str, ops: Container[str] = ()) -> str:
    """The scope that an op was made in, "" if in none: with Keras, the path of its layer.

    A gradient belongs to the layer of its op. The scope that one of `ops` opens for helpers or gradients is no layer.
    """
    scope = _forward(op).rpartition("/")[0]
    opened_by_an_op = scope in ops or (is_backward(op) and scope.endswith(_GRADIENT_SUFFIX))
    return scope.rpartition("/")[0] if opened_by_an_op else scope


def layers(ops: Sequence[str]) -> list[str]:
    """The layer of every op of a graph, in the order of their names."""
    known = set(ops)
    return [layer_of(op, known) for op in ops]


def _forward(op: str) -> str:
    """The name of an op without the scope of gradients that it may be in."""
    gradient = _GRADIENT_SCOPE.match(op)
    return op[gradient.end() :] if gradient else op


def _parts(op: str) -> list[str]:
    """The outermost scopes of an op, and the op itself if it is not too deep in them."""
    return _forward(op).split("/", DEEPEST)[:DEEPEST]


def _joined(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name


class LayerScopes:
    """The scopes of a graph, to find the ops of a layer: `holds`.

    A layer called "head" has the scope head/ in tf_keras, and in JAX, where flax calls it head.attend/ inside another
    method than the usual one. Keras 3 on TensorFlow opens two scopes for each call and puts the ops into the second
    one: head_1/, and head_3/ if the layer is called again. So there head_1/ may be the layer "head", or another layer
    of that very name; which it is, the scopes beside it tell. Elsewhere scopes are not `numbered`.
    """

    def __init__(self, ops: Iterable[str], *, numbered: bool = True) -> None:
        self._ops, self._numbered = ops, numbered
        self._answers: dict[tuple[str, str, str], bool] = {}

    @cached_property
    def _paths(self) -> set[tuple[str, ...]]:
        return {tuple(_parts(op)) for op in self._ops}

    @cached_property
    def _beside(self) -> dict[str, set[str]]:
        """Scope -> the names of the scopes and ops in it."""
        found: dict[str, set[str]] = {"": set()}
        for parts in self._paths:
            parent = ""
            for name in parts:
                found.setdefault(parent, set()).add(name)
                parent = _joined(parent, name)
        return found

    def holds(self, layer: str, op: str) -> bool:
        """Whether an op, or the op that it is a gradient of, is in a layer, or in one inside another ("a/b")."""
        wanted, path = layer.split("/"), _parts(op)
        return any(
            all(self._is(name, "/".join(path[:at]), path[at]) for at, name in enumerate(wanted, start))
            for start in range(len(path) - len(wanted) + 1)
        )

    def names(self) -> list[str]:
        """The names by which `holds` finds layers."""
        opened_by_ops = {"/".join(parts) for parts in self._paths}
        scopes = [scope.rpartition("/") for scope in self._beside if scope and scope not in opened_by_ops]
        return sorted({self._shortest(parent, name) for parent, _, name in scopes})

    def _shortest(self, parent: str, scope: str) -> str:
        numbered = _NUMBERED.fullmatch(scope)
        return numbered[1] if numbered and self._is(numbered[1], parent, scope) else scope

    def _is(self, layer: str, parent: str, scope: str) -> bool:
        """Whether a scope is that of a layer; a name that stands for two layers is the one that Keras would choose."""
        if not self._numbered:
            return scope == layer or scope.startswith(f"{layer}.")
        if scope != layer and not scope.startswith(f"{layer}_"):
            return False
        key = (layer, parent, scope)
        if key not in self._answers:
            self._answers[key] = scope in self._scopes_of(layer, parent)
        return self._answers[key]

    def _scopes_of(self, layer: str, parent: str) -> set[str]:
        beside = self._beside.get(parent, set())
        again = {name for name in beside if (found := _NUMBERED.fullmatch(name)) and found[1] == layer}
        if layer not in beside:
            return again
        numbered = [bool(_NUMBERED.fullmatch(name)) for name in beside if _joined(parent, name) in self._beside]
        taken = _NUMBERED.fullmatch(layer) and 2 * sum(numbered) > len(
            numbered
        )  # by Keras 3, so that dense_1/ is the layer "dense"
        return again if taken and again else {layer}
