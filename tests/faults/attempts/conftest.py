"""Attempts are told apart in two ways: by what each report names, and by sums if tasks are many."""

import pytest

from headrace.runners.engine.driver import running_topology


@pytest.fixture(params=[256, 2], ids=["few tasks", "many tasks"])
def many_tasks(request, monkeypatch):
    """From how many tasks on they count as many."""
    monkeypatch.setattr(running_topology, "MANY_TASKS", request.param)
    return request.param
