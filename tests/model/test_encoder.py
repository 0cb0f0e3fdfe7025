import dataclasses
import json

import pytest
import torch
from safetensors.torch import save_file

from bayestriplet.errors import InputError
from bayestriplet.evaluation.encoders import load_encoder, save_encoder
from bayestriplet.model.backbone import build_backbone
from bayestriplet.model.encoder import Encoder
from bayestriplet.model.info import EncoderInfo


def info(**changes):
    values = {
        "backbone": "resnet18", "width": 0.25, "dim": 16, "channels": 3, "size": 28, "mean": (0.5, 0.4, 0.3),
        "deviation": (0.2, 0.2, 0.1), "normalize": True, "classes": ("a", "b"),
    }  # fmt: skip
    return EncoderInfo(**values | changes)


def test_an_encoder_survives_its_file(tmp_path):
    encoder = Encoder(info()).eval()
    save_encoder(encoder, tmp_path / "model.safetensors")
    loaded = load_encoder(tmp_path / "model.safetensors")
    images = torch.rand(4, 3, 28, 28)
    assert loaded.info == encoder.info
    torch.testing.assert_close(loaded(images), encoder(images))


def test_embeddings_are_standardised_first_and_normalised_by_option():
    torch.manual_seed(0)
    encoder = Encoder(info(normalize=False)).eval()
    images = torch.rand(4, 3, 28, 28)
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in (encoder.info.mean, encoder.info.deviation))
    torch.testing.assert_close(encoder(images), encoder.backbone((images - mean) / deviation))
    assert not torch.allclose(encoder(images).norm(dim=1), torch.ones(4))
    torch.manual_seed(0)
    torch.testing.assert_close(Encoder(info()).eval()(images).norm(dim=1), torch.ones(4))


def test_the_resnet_18_is_the_standard_one():
    network = build_backbone("resnet18", 3, 1000)
    assert sum(p.numel() for p in network.parameters()) == 11_689_512  # as published for 1000 classes
    assert network.state_dict()["layer4.1.conv2.weight"].shape == (512, 512, 3, 3)
    assert "layer2.0.downsample.0.weight" in network.state_dict()


@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50"])
def test_the_family_embeds_images(name):
    assert build_backbone(name, 1, 7, 0.25).eval()(torch.rand(2, 1, 28, 28)).shape == (2, 7)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("channels", [1, 3])
def test_official_weights_load_all_but_the_last_layer(suffix, channels, tmp_path):
    official = build_backbone("resnet18", 3, 1000)
    path = tmp_path / f"resnet18{suffix}"
    if suffix == ".pth":
        torch.save(official.state_dict(), path)
    else:
        save_file(official.state_dict(), path)
    network = build_backbone("resnet18", channels, 16, weights=str(path))
    for name, value in network.state_dict().items():
        if name == "conv1.weight" and channels == 1:
            torch.testing.assert_close(value, official.state_dict()[name].sum(1, keepdim=True))
        elif not name.startswith("fc."):
            assert torch.equal(value, official.state_dict()[name]), name


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_weights_that_do_not_fit_or_hold_code_are_refused(tmp_path):
    torch.save(build_backbone("resnet34", 3, 9).state_dict(), tmp_path / "r34.pth")
    with pytest.raises(InputError, match="does not fit this backbone"):
        build_backbone("resnet18", 3, 16, weights=str(tmp_path / "r34.pth"))
    with pytest.raises(InputError, match="needs the same network at width 1"):
        build_backbone("resnet34", 3, 16, 0.5, weights=str(tmp_path / "r34.pth"))
    torch.save({"conv1.weight": Malicious(tmp_path / "proof")}, tmp_path / "evil.pth")
    with pytest.raises(InputError, match="cannot be read as weights"):
        build_backbone("resnet18", 3, 16, weights=str(tmp_path / "evil.pth"))
    assert not (tmp_path / "proof").exists()
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state dict"):
        build_backbone("resnet18", 3, 16, weights=str(tmp_path / "list.pth"))
    (tmp_path / "empty.pth").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty.pth cannot be read as weights: .+"):
        build_backbone("resnet18", 3, 16, weights=str(tmp_path / "empty.pth"))
    with pytest.raises(InputError, match="no such file"):
        build_backbone("resnet18", 3, 16, weights=str(tmp_path / "none.pth"))


def test_weights_without_counters_of_batches_load_too(tmp_path):
    state = {k: v for k, v in build_backbone("resnet18", 3, 9).state_dict().items() if "num_batches" not in k}
    torch.save(state, tmp_path / "old.pth")
    network = build_backbone("resnet18", 3, 16, weights=str(tmp_path / "old.pth"))
    assert torch.equal(network.state_dict()["conv1.weight"], state["conv1.weight"])


def test_a_model_file_cannot_name_code_to_run(tmp_path):
    path, proof = tmp_path / "model.safetensors", tmp_path / "proof"
    values = {"backbone": "subprocess:call", "channels": ["touch", str(proof)], "dim": 0}
    described = json.dumps(dataclasses.asdict(info()) | values)
    save_file({"a": torch.zeros(1)}, path, {"format": "1", "encoder": described})
    with pytest.raises(InputError, match="makes no sense"):
        load_encoder(path)
    described = json.dumps(dataclasses.asdict(info()) | {"backbone": "os:abort"})
    save_file({"a": torch.zeros(1)}, path, {"format": "1", "encoder": described})
    with pytest.raises(
        InputError, match=r"needs the backbone 'os:abort', which is code: give --backbone os:abort"
    ):
        load_encoder(path)
    assert not proof.exists()


@pytest.mark.parametrize("name", [":x", "..a:b", "os:getcwd", "os:", "no.such:thing"])
def test_factories_that_cannot_be_used_are_one_line(name):
    with pytest.raises(InputError, match=r"cannot be (imported|built)"):
        build_backbone(name, 3, 16)


def test_model_files_that_are_broken_or_of_another_format_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="cannot be read as a model"):
        load_encoder(path)
    save_file({"a": torch.zeros(1)}, path, {"format": "99"})
    with pytest.raises(InputError, match="has format '99'; this version reads 1"):
        load_encoder(path)
    save_file({"a": torch.zeros(1)}, path, {"format": "1", "encoder": json.dumps({"backbone": "resnet18"})})
    with pytest.raises(InputError, match="is not a whole model"):
        load_encoder(path)
