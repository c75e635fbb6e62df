"""What the repository promises about itself: its map is true, its import is light, its documents name what exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "mixdown"


def modules() -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}


def test_every_module_says_what_it_holds() -> None:
    silent = [name for name in sorted(modules()) if not (PACKAGE / name).read_text("utf-8").startswith('"""')]
    assert silent == []


def test_import_loads_no_framework() -> None:
    script = "import sys, mixdown; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 - our own interpreter
    assert set(loaded).isdisjoint({"tensorflow", "keras", "tf_keras", "numpy", "scipy", "jax"})


def test_policy_needs_no_framework() -> None:
    script = "import sys, mixdown; mixdown.Policy().with_deny('Exp'); assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603 - our own interpreter


def test_every_public_name_resolves() -> None:
    import mixdown  # noqa: PLC0415 - the other tests look at a fresh import

    assert [name for name in mixdown.__all__ if getattr(mixdown, name, None) is None] == []


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    import mixdown  # noqa: PLC0415 - the other tests look at a fresh import

    with pytest.raises(AttributeError, match="has no attribute 'enable'; it has DynamicLossScale, "):
        _ = mixdown.enable  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=re.escape("has no attribute 'Polciy' (did you mean 'Policy'?); it has ")):
        _ = mixdown.Polciy  # type: ignore[attr-defined]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_only_tasks_that_exist(document: str) -> None:
    tasks = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?<=\bmake )[a-z-]+", (ROOT / document).read_text("utf-8")))
    assert named - {"and"} <= tasks


def test_documents_link_only_to_files_that_exist() -> None:
    links = {
        link for page in ROOT.glob("*.md") for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text("utf-8"))
    }
    assert {link for link in links if not (ROOT / link).exists()} == set()
