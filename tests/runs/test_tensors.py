import numpy as np
import pytest
from safetensors.numpy import load_file

from bayestriplet.errors import InputError
from bayestriplet.runs.tensors import check_format, read_metadata, read_tensors, write_tensors

TENSORS = {"b": np.arange(6.0).reshape(2, 3), "a": np.array(3), "empty": np.zeros((0, 4), np.float32)}
METADATA = {name: name * 3 for name in ("format", "classes", "encoder", "ü", "x", "y", "z")}


def test_tensors_survive_their_file_and_others_can_read_it(tmp_path):
    path = tmp_path / "file.safetensors"
    write_tensors(path, TENSORS, METADATA)
    tensors, metadata = read_tensors(path, "a thing")
    for found in (tensors, load_file(path)):
        assert found.keys() == TENSORS.keys()
        for name, value in TENSORS.items():
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
            assert found[name].shape == value.shape
    assert metadata == read_metadata(path, "a thing") == METADATA


def test_equal_content_gives_equal_bytes_in_whatever_order_it_comes(tmp_path):
    contents = set()
    for turn in range(6):
        path = tmp_path / f"{turn}.safetensors"
        tensors = dict(reversed(TENSORS.items())) if turn % 2 else TENSORS
        write_tensors(path, tensors, dict(sorted(METADATA.items(), reverse=bool(turn % 2))))
        contents.add(path.read_bytes())
    assert len(contents) == 1


def test_columns_of_an_array_are_written_as_they_are(tmp_path):
    value = np.arange(12.0).reshape(3, 4).T  # not contiguous
    write_tensors(tmp_path / "file", {"t": value}, {})
    np.testing.assert_array_equal(read_tensors(tmp_path / "file", "a thing")[0]["t"], value)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff" * 64])
def test_what_is_no_such_file_is_one_line(content, tmp_path):
    path = tmp_path / "file.safetensors"
    path.write_bytes(content)
    for read in (read_tensors, read_metadata):
        with pytest.raises(InputError, match=r"file.safetensors cannot be read as a thing: [^\n]+$"):
            read(path, "a thing")
        with pytest.raises(InputError, match="cannot be read as a thing"):
            read(tmp_path / "none", "a thing")


def test_a_format_that_is_not_known_is_refused_by_name(tmp_path):
    assert check_format(tmp_path, {"format": "2"}, ("1", "2")) == "2"
    with pytest.raises(InputError, match="has format '3'; this version reads 1 and 2"):
        check_format(tmp_path, {"format": "3"}, ("1", "2"))
