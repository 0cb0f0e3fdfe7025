import io

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.images import decode, decode_bytes, decode_one, inspect, load_image
from bayestriplet.data.sources import list_data, open_data
from bayestriplet.errors import InputError
from tests.data.pictures import jpeg2000, make_folder, ramp, save_deep, save_picture


def eighth(values, bits):
    """Return values of so many bits in 0 .. 255, rounded."""
    return np.floor(np.asarray(values) * 255.0 / (2**bits - 1) + 0.5).astype(np.uint8)


def deep_folder(root, bits, suffix="png", **options):
    for name, high in (("a", 1.0), ("b", 0.3)):
        for i in range(4):
            values = (ramp(bits) * high).astype(np.uint16)
            save_deep(root / name / f"{i}.{suffix}", np.roll(values, i, axis=0), **options)
    return root


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("bits", [9, 10, 12, 14, 15])
def test_the_fewest_bits_that_hold_the_whole_set_scale_it(tmp_path, suffix, bits):
    images = open_data(str(deep_folder(tmp_path, bits, suffix)))
    assert images.bits == bits
    pixels = images.read(range(len(images)))
    dark = (ramp(bits) * 0.3).astype(np.uint16)
    assert (pixels[images.ids.index(f"a/0.{suffix}"), ..., 0] == eighth(ramp(bits), bits)).all()
    assert (pixels[images.ids.index(f"b/0.{suffix}"), ..., 0] == eighth(dark, bits)).all()


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_a_set_of_the_whole_range_keeps_every_byte(tmp_path, suffix):
    images = open_data(str(deep_folder(tmp_path, 16, suffix)))
    assert images.bits == 16
    for one, path in zip(images.read(range(len(images))), images.paths, strict=True):
        with Image.open(path) as stored:
            values = np.asarray(stored).astype(np.uint32)
        np.testing.assert_array_equal(one[..., 0], ((values + 128) // 257).astype(np.uint8))


def test_every_value_of_16_bits_is_what_it_was(tmp_path):
    values = np.arange(65536, dtype=np.uint32).reshape(256, 256)
    path = save_deep(tmp_path / "all.png", values)
    np.testing.assert_array_equal(decode(path, 256, 1)[..., 0], ((values + 128) // 257).astype(np.uint8))


def test_a_black_set_stays_black(tmp_path):
    for name in "ab":
        save_deep(tmp_path / name / "0.png", np.zeros((30, 30)))
    images = open_data(str(tmp_path))
    assert images.bits == 16
    assert images.read([0, 1]).max() == 0


def test_files_of_8_bits_say_nothing_of_16(tmp_path):
    root = make_folder(tmp_path, {"a": 3, "b": 3}, (30, 30))
    assert open_data(str(root)).bits == 16
    save_deep(root / "a" / "deep.png", ramp(12, 30))
    assert open_data(str(root)).bits == 12


def test_bad_files_do_not_decide(tmp_path):
    root = deep_folder(tmp_path, 12)
    whole = save_deep(root / "a" / "bad.png", ramp(16)).read_bytes()
    (root / "a" / "bad.png").write_bytes(whole[: len(whole) // 2])
    assert open_data(str(root), skip_bad=True).bits == 12


@pytest.mark.parametrize("tag", [281, 341])  # MaxSampleValue, SMaxSampleValue
def test_a_tiff_that_declares_its_highest_value_is_scaled_by_it(tmp_path, tag):
    path = save_deep(tmp_path / "a.tif", ramp(12), tiffinfo={tag: 4095})
    for bits in (16, 14):
        np.testing.assert_array_equal(decode(path, 64, 1, bits=bits)[..., 0], eighth(ramp(12), 12))
    assert inspect(path).most == 0


@pytest.mark.parametrize("value", [2870, 1023, 65535, 0])
def test_a_tiff_that_names_a_highest_pixel_or_a_false_one_declares_nothing(tmp_path, value):
    path = save_deep(tmp_path / "a.tif", ramp(12), tiffinfo={281: value})
    assert inspect(path).most == 4095
    np.testing.assert_array_equal(decode(path, 64, 1, bits=12)[..., 0], eighth(ramp(12), 12))


def test_a_tiff_of_12_bits_a_sample_is_scaled_by_12(tmp_path):
    values = ramp(12, 16).ravel()
    packed = bytearray()
    for one, two in values.reshape(-1, 2).tolist():
        packed += bytes([one >> 4, (one & 15) << 4 | two >> 8, two & 255])
    out = io.BytesIO()
    Image.new("I;16", (16, 16)).save(out, "TIFF")
    content = bytearray(out.getvalue())
    with Image.open(out) as image:
        place, length = image.tag_v2[273][0], image.tag_v2[279][0]
    entry = content.index((258).to_bytes(2, "little"))
    content[entry + 8 : entry + 10] = (12).to_bytes(2, "little")
    content[place : place + length] = packed.ljust(length, b"\0")
    (tmp_path / "a.tif").write_bytes(content)
    np.testing.assert_array_equal(decode(tmp_path / "a.tif", 16, 1)[..., 0].ravel(), eighth(values, 12))


def test_a_png_whose_bits_lie_low_is_scaled_by_the_bits_it_declares(tmp_path):
    path = save_deep(tmp_path / "a.png", ramp(12), sbit=12)
    np.testing.assert_array_equal(decode(path, 64, 1)[..., 0], eighth(ramp(12), 12))
    assert inspect(path).most == 0


def test_a_png_whose_bits_lie_high_as_its_standard_says_keeps_its_range(tmp_path):
    values = ramp(12) << 4 | ramp(12) >> 8
    for name, stored in (("a", values), ("dark", values & 0x0FF0)):
        path = save_deep(tmp_path / f"{name}.png", stored, sbit=12)
        np.testing.assert_array_equal(decode(path, 64, 1, bits=12)[..., 0], eighth(stored, 16))
        assert inspect(path).most == 0


@pytest.mark.parametrize("boxed", [True, False])
def test_a_jpeg_2000_is_scaled_by_the_precision_it_declares(tmp_path, boxed):
    path = tmp_path / "a.png"  # content decides
    path.write_bytes(jpeg2000(ramp(12), 12, boxed))
    for bits in (16, 14, 12):
        found = decode(path, 64, 1, bits=bits)[..., 0].astype(int)
        assert np.abs(found - eighth(ramp(12), 12)).max() <= 1  # Pillow fills 16 bits with zeros below
    assert inspect(path).most == 0
    path.write_bytes(jpeg2000(ramp(12), 16, boxed))
    assert inspect(path).most == 4095
    np.testing.assert_array_equal(decode(path, 64, 1, bits=12)[..., 0], eighth(ramp(12), 12))


def test_a_file_that_declares_its_bits_does_not_decide_for_the_set(tmp_path):
    root = deep_folder(tmp_path, 10)
    save_deep(root / "a" / "own.tif", ramp(14), tiffinfo={281: 2**14 - 1})
    images = open_data(str(root))
    assert images.bits == 10
    own, other = images.read([images.ids.index("a/own.tif"), images.ids.index("a/0.png")])
    np.testing.assert_array_equal(own[..., 0], eighth(ramp(14), 14))
    np.testing.assert_array_equal(other[..., 0], eighth(ramp(10), 10))


def test_every_way_to_decode_takes_the_bits(tmp_path):
    path = save_deep(tmp_path / "a" / "a.png", ramp(12))
    wanted = eighth(ramp(12), 12)
    np.testing.assert_array_equal(decode_one(path, 64, 1, bits=12)[..., 0], wanted)
    np.testing.assert_array_equal(np.asarray(load_image(path, bits=12)), wanted)
    np.testing.assert_array_equal(decode_bytes(path.read_bytes(), 64, 1, bits=12)[..., 0], wanted)
    listed = list_data(str(tmp_path), size=64, channels=1, bits=12)
    np.testing.assert_array_equal(listed.read([0])[0, ..., 0], wanted)
    np.testing.assert_array_equal(listed.subset(np.array([0])).read([0])[0, ..., 0], wanted)


@pytest.mark.parametrize("bits", [0, 17])
def test_bits_outside_a_file_s_range_are_refused(tmp_path, bits):
    save_deep(tmp_path / "a" / "a.png", ramp(12))
    with pytest.raises(InputError, match=f"bits must be at (least 1|most 16); got {bits}"):
        list_data(str(tmp_path), size=64, channels=1, bits=bits)


def test_values_above_the_bits_are_white_and_other_files_do_not_change(tmp_path):
    path = save_deep(tmp_path / "a.png", ramp(16))
    np.testing.assert_array_equal(
        decode(path, 64, 1, bits=12)[..., 0], eighth(np.minimum(ramp(16), 4095), 12)
    )
    plain = save_picture(tmp_path / "plain.png", 30, 30, 3)
    np.testing.assert_array_equal(decode(plain, 30, 3, bits=12), decode(plain, 30, 3))
