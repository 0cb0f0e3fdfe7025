"""Work that can wait gives way, once."""

import os

import pytest

from bayestriplet import priority
from bayestriplet.priority import let_others_go_first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process cannot take its priority back: needs a fork")
def test_a_process_gives_way_and_no_more_the_second_time(monkeypatch):
    monkeypatch.setattr(priority, "NICE", 10)
    reading, writing = os.pipe()
    before = os.getpriority(os.PRIO_PROCESS, 0)
    child = os.fork()
    if child == 0:
        let_others_go_first()
        let_others_go_first()
        os.write(writing, str(os.getpriority(os.PRIO_PROCESS, 0)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 10)) == max(before, 10)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
