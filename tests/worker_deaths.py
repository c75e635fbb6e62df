"""What happens if a process that runs tests dies: its tests are run again, once, by another one. See `Files`.

TensorFlow, XLA and JAX run native threads, and a fault in one of them ends the whole process, together with hundreds of
tests that have nothing to do with it. The last lines of a run name the test during which that happened. A test that
ends two processes fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

RUN_AGAIN = "run again"


class Files(LoadFileScheduling):
    """Gives files to processes, as `--dist loadfile` does.

    xdist's own scheduler gives finished files of a dead process out again and waits for their results for ever.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self.fatal: list[str] = []  # the tests during which processes died, in order

    def remove_node(self, node: Any) -> str | None:
        """Take a process out; what it has not finished is open again. Returns the test it died of, None if of none."""
        files = self.assigned_work.pop(node)
        left = [(file, test) for file, tests in files.items() for test, done in tests.items() if not done]
        if not left:
            return None
        test = left[0][1]
        for file, each in left[test in self.fatal :]:
            self.workqueue.setdefault(file, {})[each] = False
        self.fatal.append(test)
        for other in self.assigned_work:
            self._reschedule(other)
        return test

    def schedule(self) -> None:
        """Give every process work; twice, because a process waits with its last test until it hears what is next."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files | None:
    """Stand in for `--dist loadfile`."""
    return Files(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any, sched: Any) -> None:
    """Call the first death no failure: its test is run again."""
    if isinstance(sched, Files) and sched.fatal.count(crashitem) == 1:
        report.outcome = RUN_AGAIN


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show a letter for it."""
    return (RUN_AGAIN, "R", "RUN AGAIN") if report.outcome == RUN_AGAIN else None
