"""Uploads that ask too much of a decoder, on a real server and in the pool of processes."""

import io
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.images import decode_bytes
from bayestriplet.errors import DataError
from bayestriplet.model.info import EncoderInfo
from bayestriplet.service.decoding import Decoders
from bayestriplet.service.refusals import RefusalError
from tests.data.test_bounds import jpeg, repeat_last_scan
from tests.service.servers import Server, save_scan

INFO = EncoderInfo("resnet18", 1, 16, 3, 32, (0.5,) * 3, (0.2,) * 3, True, ("a", "b"))


def slow_jpeg():
    """Return a file within all bounds that takes seconds to decode."""
    return repeat_last_scan(jpeg(7990, 7990, progressive=True), 85)


def large_jpeg2000():
    """Return a file of 1 kB that takes far above a gigabyte to decode."""
    out = io.BytesIO()
    Image.new("RGB", (7990, 7990), 7).save(out, "JPEG2000")
    return out.getvalue()


@pytest.fixture
def decoders():
    decoders = Decoders(1)
    yield decoders
    decoders.close()


def own_process(decoders):
    decoder = decoders._take()
    decoders._give_back(decoder, True)
    return decoder.process


def test_another_process_decodes_as_this_one_does(decoders):
    for content in (jpeg(50, 40), jpeg(300, 200, progressive=True)):
        np.testing.assert_array_equal(decoders.decode(content, INFO), decode_bytes(content, 32, 3))
    with pytest.raises(DataError, match=r"^the file is not an image$"):
        decoders.decode(b"text", INFO)
    with pytest.raises(DataError, match=r"^the file is empty$"):
        decoders.decode(b"", INFO)


def test_a_process_is_kept_from_file_to_file_and_gone_when_it_is_closed(decoders):
    decoders.warm_up()
    first = own_process(decoders)
    decoders.decode(jpeg(), INFO)
    assert own_process(decoders) is first
    decoders.close()
    assert first.poll() is not None
    with pytest.raises(RefusalError, match="the server is stopping"):
        decoders.decode(jpeg(), INFO)


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_is_decoded():
    decoders = Decoders(1, seconds=0.2)
    try:
        began = time.monotonic()
        with pytest.raises(DataError, match=r"takes longer than 0\.2 seconds to decode; shrink it"):
            decoders.decode(slow_jpeg(), INFO)
        assert time.monotonic() - began < 8
        assert decoders.decode(jpeg(), INFO).shape == (32, 32, 3)
    finally:
        decoders.close()


def test_a_file_that_takes_too_much_memory_is_given_up_and_the_next_one_is_decoded():
    decoders = Decoders(1, seconds=60)
    try:
        with pytest.raises(DataError, match=r"the file (takes too much memory|cannot be read: broken)"):
            decoders.decode(large_jpeg2000(), INFO)
        assert decoders.decode(jpeg(), INFO).shape == (32, 32, 3)
    finally:
        decoders.close()


def test_a_process_that_has_died_is_replaced(decoders):
    decoders.decode(jpeg(), INFO)
    for number in (signal.SIGKILL, signal.SIGSEGV):
        process = own_process(decoders)
        os.kill(process.pid, number)
        process.wait(10)
        assert decoders.decode(jpeg(), INFO).shape == (32, 32, 3)


def test_closing_ends_a_file_under_way(decoders):
    decoders.warm_up()
    decoders.decode(jpeg(), INFO)
    threading.Timer(0.3, decoders.close).start()
    began = time.monotonic()
    with pytest.raises(RefusalError, match="the server is stopping"):
        decoders.decode(slow_jpeg(), INFO)
    assert time.monotonic() - began < 8


def test_more_files_than_processes_wait_their_turn():
    decoders = Decoders(2)
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(lambda _: decoders.decode(jpeg(), INFO).shape, range(12)))
        assert found == [(32, 32, 3)] * 12
    finally:
        decoders.close()


def test_searches_are_answered_while_slow_uploads_are_decoded(server, tmp_path):
    slow, query = slow_jpeg(), save_scan(5, tmp_path / "query.png").read_bytes()
    item = server.get("/api/info")[1]["examples"][0]["id"]
    with ThreadPoolExecutor(20) as pool:
        attacks = [pool.submit(server.search, slow) for _ in range(4)]
        time.sleep(1)
        began = time.monotonic()
        assert server.search(item=item)[0] == 200
        assert time.monotonic() - began < 2
        assert {one.result()[0] for one in attacks} <= {200, 422}
    assert server.search(query)[0] == 200


def test_ctrl_c_ends_the_service_within_two_seconds_while_a_decoder_is_busy(indexed):
    server, slow = Server(indexed), slow_jpeg()
    with ThreadPoolExecutor(8) as pool:
        attacks = [pool.submit(server.search, slow) for _ in range(8)]
        time.sleep(1)
        began = time.monotonic()
        code, said, _ = server.stop(signal.SIGINT)
        took = time.monotonic() - began
        for one in attacks:
            one.exception()
    assert (code, said[-1]) == (0, "Stopped.")
    assert took < 2
