"""Image files that ask much of a decoder are refused before they are decoded."""

import io
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.bounds import MAX_SCANS, has_many_scans
from bayestriplet.data.images import decode_bytes, decode_one, inspect, load_image, problem
from bayestriplet.errors import DataError


def jpeg(width=64, height=64, **options):
    out = io.BytesIO()
    colours = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(colours).resize((width, height)).save(out, "JPEG", **options)
    return out.getvalue()


def repeat_last_scan(content, times):
    """Return a JPEG file whose last scan is there so many times more."""
    start = content.rindex(b"\xff\xda")
    return content[:start] + content[start:-2] * (times + 1) + content[-2:]


def test_a_jpeg_of_very_many_scans_is_bad_and_not_decoded(tmp_path):
    path = tmp_path / "slow.jpg"
    path.write_bytes(repeat_last_scan(jpeg(7990, 7990, progressive=True), 500))
    began = time.process_time()
    assert problem(path) == "has more than 100 scans"
    with pytest.raises(DataError, match="the file has more than 100 scans"):
        decode_bytes(path.read_bytes(), 8, 3)
    assert time.process_time() - began < 1


def test_scans_are_counted_up_to_the_end_of_the_image():
    few = jpeg(progressive=True)
    assert not has_many_scans(memoryview(few))
    assert not has_many_scans(memoryview(few + b"\xff\xda" * 1000))  # a film behind a photo
    assert not has_many_scans(memoryview(repeat_last_scan(few, 50)))
    assert has_many_scans(memoryview(repeat_last_scan(few, MAX_SCANS)))
    assert has_many_scans(memoryview(repeat_last_scan(jpeg(), MAX_SCANS)))


def test_a_preview_in_the_header_does_not_count():
    preview = b"\xff\xda\x00\x02" * 200
    content = jpeg(exif=b"Exif\x00\x00" + preview)
    assert content.count(b"\xff\xda") > 200
    assert not has_many_scans(memoryview(content))


def test_a_side_is_bounded(tmp_path):
    Image.new("1", (1, 63_999_999)).save(tmp_path / "line.png")
    assert problem(tmp_path / "line.png") == "has 1 x 63999999 pixels, a side of more than 32,767"


def test_a_large_jpeg_is_reduced_alike_from_a_file_and_from_bytes(tmp_path):
    path = tmp_path / "large.jpg"
    path.write_bytes(jpeg(4200, 4100))
    assert load_image(path).size == (2100, 2050)
    from_file = decode_one(path, 32, 3)
    np.testing.assert_array_equal(from_file, decode_bytes(path.read_bytes(), 32, 3))
    found = inspect(path)
    assert (found.width, found.height) == (4200, 4100)
    whole = np.asarray(Image.open(path).resize((32, 32), Image.Resampling.BICUBIC, (50, 0, 4150, 4100)))
    assert np.abs(whole.astype(int) - from_file).max() <= 3


def test_transparency_is_laid_on_white_in_bands(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (600, 20, 4), np.uint8)
    Image.fromarray(values).save(tmp_path / "clear.png")
    over = Image.fromarray(values)
    wanted = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
    np.testing.assert_array_equal(np.asarray(load_image(tmp_path / "clear.png")), np.asarray(wanted))


MEASURE = """
import resource, sys
from pathlib import Path
from bayestriplet.data.images import decode_one
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
decode_one(Path(sys.argv[1]), 224, 3)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_the_largest_transparent_image_takes_well_below_a_gigabyte(tmp_path):
    Image.new("RGBA", (8000, 8000), (9, 8, 7, 100)).save(tmp_path / "clear.png", compress_level=1)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "clear.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700
