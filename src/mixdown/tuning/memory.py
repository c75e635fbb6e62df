"""What tuning found out, kept for the next run: one file a function in the user's cache folder. See `recall`, `store`.

The files may be damaged or another's work: every value is checked, and a policy in one is used only if the policy at
hand could have led to it.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from mixdown.core import Plan, Policy, Role
from mixdown.core.pricing.effort import effort_of
from mixdown.errors import MixdownError
from mixdown.messages import warn
from mixdown.tuning.candidates import is_derived
from mixdown.untrusted.typed import read_document

SCHEMA = "mixdown-tuned/1"
VARIABLE = "MIXDOWN_CACHE"
LARGEST = 1_000_000
"""Bytes: a larger file was not written by `store`."""


@dataclass(frozen=True)
class Trial:
    """How long one candidate took."""

    name: str
    calls: int
    seconds: float  # the median
    low: float  # beside float32: the interval that holds the median of the pairs with a certainty of 95 %
    ratio: float
    high: float

    @property
    def shown(self) -> tuple[str, ...]:
        """Its numbers, for people."""
        interval = f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.seconds * 1e3:.3g} ms", f"{self.ratio:.3f}", interval, str(self.calls)


class Identity(NamedTuple):
    """A function, and where it runs."""

    function: str
    graph: str  # its fingerprint
    device: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Tuned:
    """What became of a function."""

    function: str
    graph: str
    device: str
    versions: dict[str, str]
    kept: str  # the name of the candidate, "" if none is kept yet
    policy: Policy
    trials: tuple[Trial, ...] = ()

    def __str__(self) -> str:
        ratio = {trial.name: f": {trial.ratio:.2f} of float32" for trial in self.trials}
        return f"kept {self.kept}{': nothing was faster' if self.kept == 'float32' else ratio.get(self.kept, '')}"


def fingerprint(plan: Plan, *more: str) -> str:
    """A hash of a plan's graph, the same in every process: its ops, how they are wired, and how much work they do."""
    graph, effort = plan.graph, effort_of(plan.view.prices, plan.paints)
    ends = {site.op for site in graph.sites if site.role is Role.CONDUIT}  # numbers of the trace are in their names
    ops = [(op.kind, op.compiled, "" if index in ends else op.name) for index, op in enumerate(graph.ops)]
    wires = [(tensor.site, tensor.consumers) for tensor in graph.tensors]
    text = json.dumps([ops, wires, effort.flops, effort.float32_bytes, more])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def recall(policy: Policy, identity: Identity) -> Tuned | None:
    """What tuning found out about a function under a policy before, None if nothing can be used; warns if it is broken.

    What the policy itself holds comes first, wherever that was found out.
    """
    for known, chosen in policy.choices:
        if known == identity.graph and is_derived(chosen, policy.untuned, policy.or_low):
            return Tuned(*identity, "what the policy holds", chosen)
    path = place(policy, identity)
    if not path.exists():
        return None
    found = _read(path)
    if isinstance(found, Tuned) and is_derived(found.policy, policy.untuned, policy.or_low):
        return found
    reason = found if isinstance(found, str) else "its policy is not one that the policy in force can lead to"
    warn(f"{path} is not used, and the function is tuned again: {reason}")
    return None


def store(policy: Policy, found: Tuned) -> None:
    """Write a file, at once or not at all; a folder that cannot be written to is told."""
    path = place(policy, Identity(found.function, found.graph, found.device, found.versions))
    draft = path.with_suffix(f".{os.getpid()}")
    data = {"schema": SCHEMA, **asdict(found), "policy": found.policy.to_dict()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
        draft.replace(path)
    except OSError as error:
        warn(f"What tuning found out is not remembered: {error}")


def place(policy: Policy, identity: Identity) -> Path:
    """The file for a function, whatever that is called."""
    named = json.dumps([*identity[1:], policy.to_dict() | {"choices": []}], sort_keys=True)
    return folder() / f"{blake2b(named.encode(), digest_size=12).hexdigest()}.json"


def folder() -> Path:
    """Where the files are: MIXDOWN_CACHE, or a folder in that of the user's caches."""
    homes = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": Path.home() / "Library" / "Caches"}
    default = os.environ.get("XDG_CACHE_HOME") or homes.get(sys.platform) or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(default) / "mixdown") / "tuned"


def everything() -> dict[Path, Tuned | str]:
    """All files, each with what it holds or why it cannot be used."""
    return {path: _read(path) for path in sorted(folder().glob("*.json"))}


def _read(path: Path) -> Tuned | str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            return f"it has more than {LARGEST} characters"
        return read_document(Tuned, text, SCHEMA, "tuned function")
    except (MixdownError, OSError, UnicodeError) as broken:
        return str(broken)
