import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.images import SUFFIXES, decode, decode_bytes, inspect, problem
from bayestriplet.data.sources import open_data
from bayestriplet.errors import DataError
from tests.data.pictures import noise, save_picture


def png_header(width, height):
    """Return a PNG file that says it is this large and holds nothing."""
    chunk = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = b"\x89PNG\r\n\x1a\n"
    for name, body in ((b"IHDR", chunk), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        parts += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return parts


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "tiff"])
@pytest.mark.parametrize(("shape", "channels"), [((16, 16), 1), ((16, 16, 3), 3)])
def test_an_image_of_the_wanted_size_keeps_its_pixels(tmp_path, suffix, shape, channels):
    path = save_picture(tmp_path / f"a.{suffix}", *shape)
    assert problem(path) is None
    assert (decode(path, 16, channels) == noise(*shape).reshape(16, 16, channels)).all()


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "tif", "webp", "jp2", "j2k"])
def test_the_content_of_a_file_is_decoded_like_the_file(tmp_path, suffix):
    path = save_picture(tmp_path / f"a.{suffix}", 30, 20, 3)
    np.testing.assert_array_equal(decode_bytes(path.read_bytes(), 16, 1), decode(path, 16, 1))


def test_a_jpeg_is_read(tmp_path):
    path = tmp_path / "a.jpeg"
    Image.new("RGB", (16, 16), (200, 30, 90)).save(path, quality=95)
    assert np.abs(decode(path, 16, 3).astype(int) - (200, 30, 90)).max() < 5


@pytest.mark.parametrize("suffix", ["webp", "jp2", "j2k"])
@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 3), (16, 16, 4)])
def test_webp_and_jpeg_2000_keep_their_pixels_where_they_are_stored_exactly(tmp_path, suffix, shape):
    path = save_picture(tmp_path / f"a.{suffix}", *shape, **({"lossless": True} if suffix == "webp" else {}))
    found = inspect(path)
    assert (found.problem, found.width, found.height) == (None, 16, 16)
    values = noise(*shape)
    expected = Image.fromarray(values)
    if shape[2:] == (4,):
        expected = Image.alpha_composite(Image.new("RGBA", (16, 16), "white"), expected)
    apart = np.abs(decode(path, 16, 3).astype(int) - np.asarray(expected.convert("RGB")))
    assert apart[values[..., 3] > 0 if shape[2:] == (4,) else ...].max() == 0
    assert path.suffix in SUFFIXES


def test_webp_and_jpeg_2000_files_of_a_folder_are_read(tmp_path):
    for i in range(3):
        save_picture(tmp_path / "a" / f"{i}.webp", 30, 30, 3, seed=i)
        save_picture(tmp_path / "b" / f"{i}.JP2", 30, 30, 3, seed=i)
        save_picture(tmp_path / "b" / f"{i}.j2k", 30, 30, 3, seed=i)
    images = open_data(str(tmp_path))
    assert (len(images), images.size, images.channels) == (9, 30, 3)
    assert images.read(range(9)).std() > 30


@pytest.mark.parametrize(
    ("suffix", "feature", "name"),
    [("webp", "webp", "WebP"), ("jp2", "jpg_2000", "JPEG 2000"), ("j2k", "jpg_2000", "JPEG 2000")],
)
def test_what_a_build_of_pillow_cannot_read_is_said(tmp_path, monkeypatch, suffix, feature, name):
    from PIL import WebPImagePlugin, features

    path = save_picture(tmp_path / f"a.{suffix}")
    able = features.check
    monkeypatch.setattr(features, "check", lambda one: one != feature and able(one))
    monkeypatch.setattr(WebPImagePlugin, "SUPPORTED", False)  # as where Pillow was built without it
    wanted = f"is {name}, which this build of Pillow cannot read; install another or convert the file"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert problem(path) == wanted


def test_content_decides_not_the_extension(tmp_path):
    path = save_picture(tmp_path / "a.png", 16, 16)
    renamed = path.rename(tmp_path / "a.jpg")
    assert problem(renamed) is None


def test_the_shorter_side_is_resized_and_the_centre_kept(tmp_path):
    values = np.zeros((20, 60, 3), dtype=np.uint8)
    values[:, 20:40] = 255
    Image.fromarray(values).save(tmp_path / "wide.png")
    assert (decode(tmp_path / "wide.png", 20, 3) == 255).all()
    assert (decode(tmp_path / "wide.png", 10, 3)[:, 1:-1] == 255).all()


def test_a_long_thin_image_is_no_problem(tmp_path):
    Image.new("L", (1, 20000), 77).save(tmp_path / "thin.png")
    assert (decode(tmp_path / "thin.png", 224, 1) == 77).all()


def test_shrinking_averages_instead_of_skipping(tmp_path):
    board = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    Image.fromarray(board).save(tmp_path / "board.png")
    assert np.abs(decode(tmp_path / "board.png", 8, 1).astype(int) - 127).max() < 10


def test_grey_becomes_colour_and_colour_grey(tmp_path):
    grey = save_picture(tmp_path / "grey.png", 8, 8)
    assert (decode(grey, 8, 3) == noise(8, 8)[..., None]).all()
    Image.new("RGB", (8, 8), (255, 0, 0)).save(tmp_path / "red.png")
    assert (decode(tmp_path / "red.png", 8, 1) == 76).all()  # ITU-R 601: 0.299 * 255


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("RGBA", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 255), (255, 0, 0)),
        ("LA", (0, 0), (255, 255, 255)),
        ("LA", (10, 255), (10, 10, 10)),
        ("1", 1, (255, 255, 255)),
        ("P", (0, 0, 255), (0, 0, 255)),
    ],
)
def test_odd_modes_are_converted_on_white(tmp_path, mode, colour, expected):
    Image.new(mode, (8, 8), colour).save(tmp_path / "odd.png")
    assert problem(tmp_path / "odd.png") is None
    assert (decode(tmp_path / "odd.png", 8, 3) == expected).all()


def test_a_transparent_palette_entry_is_white(tmp_path):
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.save(tmp_path / "p.png", transparency=0)
    assert (decode(tmp_path / "p.png", 8, 3) == 255).all()


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_cmyk_is_converted(tmp_path, suffix):
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / f"c.{suffix}")
    red = decode(tmp_path / f"c.{suffix}", 8, 3).astype(int)
    assert red[..., 0].min() > 225
    assert red[..., 1:].max() < 40


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_by_their_range(tmp_path, suffix):
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(values).save(tmp_path / f"deep.{suffix}")
    assert (decode(tmp_path / f"deep.{suffix}", 8, 1)[..., 0] == np.rint(values / 257)).all()


def test_the_orientation_of_the_camera_is_applied(tmp_path):
    values = noise(8, 8, 3)
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(values).save(tmp_path / "turned.png", exif=exif)
    assert (decode(tmp_path / "turned.png", 8, 3) == values[::-1, ::-1]).all()


@pytest.mark.parametrize(
    ("mode", "colour", "grey"),
    [
        ("L", 3, True),
        ("LA", (3, 9), True),
        ("1", 1, True),
        ("RGB", (3, 3, 3), False),
        ("RGBA", (3, 3, 3, 9), False),
    ],
)
def test_the_mode_says_whether_an_image_is_grey(tmp_path, mode, colour, grey):
    Image.new(mode, (5, 9), colour).save(tmp_path / "a.png")
    found = inspect(tmp_path / "a.png")
    assert (found.width, found.height, found.mode, found.grey) == (5, 9, mode, grey)


def test_a_palette_of_greys_is_grey(tmp_path):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([0, 0, 0, 90, 90, 90])
    image.save(tmp_path / "p.png")
    assert inspect(tmp_path / "p.png").grey
    assert (decode(tmp_path / "p.png", 8, 1) == 90).all()


def test_a_photo_with_a_picture_behind_it_counts_as_the_photo(tmp_path):
    main, behind = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue"))
    main.save(tmp_path / "phone.jpg", format="MPO", save_all=True, append_images=[behind])
    assert problem(tmp_path / "phone.jpg") is None
    assert decode(tmp_path / "phone.jpg", 16, 3)[..., 0].min() > 200


def write_empty(path):
    path.write_bytes(b"")


def write_text(path):
    path.write_text("these are not the pixels you are looking for")


def write_gif(path):
    Image.new("L", (8, 8)).save(path, format="GIF")


def write_float(path):
    Image.new("F", (8, 8)).save(path, format="TIFF")


def write_long(path):
    Image.new("I", (8, 8)).save(path, format="TIFF")


def write_animation(path):
    frames = [Image.new("RGB", (8, 8), (i, 0, 0)) for i in range(3)]
    frames[0].save(path, format="PNG", save_all=True, append_images=frames[1:])


def write_webp_animation(path):
    frames = [Image.new("RGB", (8, 8), (80 * i, 0, 0)) for i in range(3)]
    frames[0].save(path, format="WEBP", save_all=True, append_images=frames[1:])


def write_large_webp(path):
    """Write the header of a file that says it is very large."""
    whole = io.BytesIO()
    Image.new("RGB", (8, 8)).save(whole, format="WEBP", lossless=True)
    content = bytearray(whole.getvalue())
    content[21:25] = struct.pack("<I", (9999 - 1) | (9998 - 1) << 14)
    path.write_bytes(content)


def write_giant_webp(path):
    write_large_webp(path)
    content = bytearray(path.read_bytes())
    content[21:25] = struct.pack("<I", (16384 - 1) | (16383 - 1) << 14)
    path.write_bytes(content)


def _write_jpeg2000(path, width, height):
    whole = io.BytesIO()
    Image.new("RGB", (8, 8)).save(whole, format="JPEG2000")
    content = bytearray(whole.getvalue())
    place = content.index(b"ihdr") + 4
    content[place : place + 8] = struct.pack(">II", height, width)
    place = content.index(b"\xff\x4f\xff\x51") + 8
    content[place : place + 8] = struct.pack(">II", width, height)
    path.write_bytes(content)


def write_large_jpeg2000(path):
    _write_jpeg2000(path, 9999, 9998)


def write_giant_jpeg2000(path):
    _write_jpeg2000(path, 90000, 90001)


def write_pages(path):
    frames = [Image.new("RGB", (8, 8), (i, 0, 0)) for i in range(2)]
    frames[0].save(path, format="TIFF", save_all=True, append_images=frames[1:])


def write_giant(path):
    path.write_bytes(png_header(90000, 90000))


def write_large(path):
    path.write_bytes(png_header(8001, 8000))


def write_between(path):
    path.write_bytes(png_header(10000, 10000))  # Pillow warns of this size, and opens it


@pytest.mark.parametrize(
    ("write", "phrase"),
    [
        (write_empty, "is empty"),
        (write_text, "is not an image"),
        (write_gif, "is not an image"),
        (write_float, "has floating-point pixels; convert it to 8 or 16 bits"),
        (write_long, "has 32-bit pixels; convert it to 8 or 16 bits"),
        (write_animation, "is animated (3 frames)"),
        (write_webp_animation, "is animated (3 frames)"),
        (write_large_webp, "has 9999 x 9998 pixels, more than 64 million"),
        (write_giant_webp, "has more than 64 million pixels"),
        (write_large_jpeg2000, "has 9999 x 9998 pixels, more than 64 million"),
        (write_giant_jpeg2000, "has 90000 x 90001 pixels, more than 64 million"),
        (write_pages, "has more than one page"),
        (write_giant, "has 90000 x 90000 pixels, more than 64 million"),
        (write_large, "has 8001 x 8000 pixels, more than 64 million"),
        (write_between, "has 10000 x 10000 pixels, more than 64 million"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bad_file_has_a_phrase(tmp_path, write, phrase):
    path = tmp_path / "bad.png"
    write(path)
    assert problem(path) == phrase
    with pytest.raises(DataError, match=r"bad\.png .*--skip-bad") as caught:
        decode(path, 8, 3)
    assert phrase in str(caught.value)
    with pytest.raises(DataError) as caught:
        decode_bytes(path.read_bytes(), 8, 3)
    assert str(caught.value) == f"the file {phrase}"


@pytest.mark.filterwarnings("error::PIL.Image.DecompressionBombWarning")
def test_a_warning_turned_into_an_error_is_the_same_problem(tmp_path):
    write_between(tmp_path / "bad.png")
    assert problem(tmp_path / "bad.png") == "has 10000 x 10000 pixels, more than 64 million"


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "TIFF", "WEBP", "JPEG2000"])
def test_a_file_cut_short_is_bad_wherever_it_is_cut(tmp_path, form):
    whole = io.BytesIO()
    Image.fromarray(noise(64, 64, 3)).save(whole, format=form)
    content = whole.getvalue()
    path = tmp_path / "cut.png"
    for share in (0.001, 0.01, 0.3, 0.6, 0.95):
        path.write_bytes(content[: max(int(share * len(content)), 1)])
        assert problem(path) is not None, share
    path.write_bytes(content[: len(content) // 2])
    if form in ("PNG", "JPEG", "BMP"):  # TIFF has its directory at the end; other decoders name no reason
        assert problem(path) == "is truncated"


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "TIFF", "WEBP", "JPEG2000"])
def test_damaged_bytes_give_a_phrase_or_an_image_but_never_another_error(tmp_path, form):
    whole = io.BytesIO()
    Image.fromarray(noise(24, 24, 3)).save(whole, format=form)
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.png"
    for _ in range(150):
        content = bytearray(whole.getvalue())
        for place in rng.integers(0, min(len(content), 400), 3):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        found = inspect(path)
        assert found.problem is None or "\n" not in found.problem
        if found.problem is None:
            assert decode(path, 8, 3).shape == (8, 8, 3)


def test_a_missing_file_cannot_be_read(tmp_path):
    assert problem(tmp_path / "gone.png") == "cannot be read: No such file or directory"


def test_a_file_without_permission_cannot_be_read(tmp_path, monkeypatch):
    path = save_picture(tmp_path / "a.png")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)  # tests may run as root, whom no permission stops
    assert problem(path) == "cannot be read: Permission denied"
