"""Run third-party programs in float32 and mixed, and write what came out to docs/zoo.md: `make zoo`.

Every program runs in its own process and environment, with a timeout. Results are kept in benchmarks/zoo/.results, one
JSON file per program, and are valid for as long as neither mixdown nor the program changes: an interrupted run goes on
where it stopped. Name programs to run these again, whatever is kept.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script, its parts are `benchmarks.zoo.*`

from benchmarks.zoo.catalogue import PACKAGES, PROGRAMS, TF_KERAS, UNCHECKED_PACKAGES, Program
from benchmarks.zoo.table import page

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "zoo.md"
RESULTS = Path(__file__).parent / ".results"
WORKER = Path(__file__).parent / "worker.py"
ANSWER = "answer: "


def main(arguments: Sequence[str] | None = None) -> None:
    """Set up environments, run what has no result yet, print the page and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names of programs to run again (default: those without a result)")
    parser.add_argument("--dtypes", default="float16", help="16-bit dtypes, comma-separated (default: float16)")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at the same time (default: 2)")
    parser.add_argument("--timeout", type=int, default=400, help="seconds for one program (default: 400)")
    parser.add_argument("--environments", type=Path, default=ROOT, help="where .venv-zoo-* are made (default: here)")
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}. Choose from: {', '.join(PROGRAMS)}")
    pythons = {name: set_up(options.environments / f".venv-zoo-{name}", name) for name in PACKAGES}

    def result(name: str) -> dict[str, Any]:
        program = PROGRAMS[name]
        known = None if name in options.programs else kept(RESULTS, name, program)
        if known is not None:
            return known
        command = [str(pythons[program.environment]), str(WORKER), name, *options.dtypes.split(",")]
        found = run(command, program, options.timeout)
        keep(RESULTS, name, program, found)
        print(f"{name}: {found['error'] or 'done'} ({found['seconds']:.0f} s)", flush=True)
        return found

    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(PROGRAMS, pool.map(result, PROGRAMS), strict=True))
    text = page(results)
    PAGE.write_text(text, "utf-8")
    print(text)


def set_up(folder: Path, environment: str) -> Path:
    """Make an environment with the packages of its programs, unless it is there; returns its Python."""
    python, ready = folder / "bin" / "python", folder / ".ready"
    wanted = json.dumps([PACKAGES[environment], UNCHECKED_PACKAGES[environment]])
    if not ready.exists() or ready.read_text("utf-8") != wanted:
        install = [str(python), "-m", "pip", "install", "--quiet"]
        _checked([sys.executable, "-m", "venv", str(folder)])
        _checked([*install, "--upgrade", "pip"])
        _checked([*install, *PACKAGES[environment]])
        if UNCHECKED_PACKAGES[environment]:
            _checked([*install, "--no-deps", *UNCHECKED_PACKAGES[environment]])
        ready.write_text(wanted, "utf-8")
    return python


def _checked(command: Sequence[str]) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - commands of this file


def run(command: Sequence[str], program: Program, timeout: float) -> dict[str, Any]:
    """Run the worker; returns its answer, or with no runs an error, and how long it took."""
    start = time.perf_counter()
    legacy = "1" if program.environment == TF_KERAS else "0"
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": legacy, "TF_ENABLE_ONEDNN_OPTS": "0", "MIXDOWN_LOG": "off"}
    try:
        done = subprocess.run(  # noqa: S603 - a command of this file
            command, capture_output=True, text=True, timeout=timeout, check=False, env=environment
        )
        answer = answer_in(done.stdout.splitlines())
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        found = answer or {"runs": [], "error": f"exit code {done.returncode}: {last}"}
    except subprocess.TimeoutExpired:
        found = {"runs": [], "error": f"it took longer than {timeout:.0f} s"}
    return {"error": "", **found, "seconds": time.perf_counter() - start}


def answer_in(lines: Iterable[str]) -> dict[str, Any] | None:
    """The answer that a worker printed, None if there is none."""
    answers = [line.removeprefix(ANSWER) for line in lines if line.startswith(ANSWER)]
    return json.loads(answers[-1]) if answers else None


def kept(folder: Path, name: str, program: Program) -> dict[str, Any] | None:
    """The result of a program that was kept, None if there is none or something has changed since."""
    path = _file(folder, name)
    result = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return result["found"] if result.get("source") == source(program) else None


def keep(folder: Path, name: str, program: Program, found: Mapping[str, Any]) -> None:
    """Keep the result of a program; a file is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = _file(folder, name).with_suffix(".draft")
    draft.write_text(json.dumps({"source": source(program), "found": found}, indent=1), "utf-8")
    draft.replace(_file(folder, name))


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.json"


def source(program: Program) -> str:
    """A digest of all that a result depends on: mixdown, the worker, and the module of the program."""
    here = Path(__file__).parent
    files = [*sorted((ROOT / "src").rglob("*.py")), *(here / f"{name}.py" for name in ("training", "worker"))]
    digest = blake2b(digest_size=16)
    for path in (*files, here / f"{program.module}.py"):
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


if __name__ == "__main__":
    main()
