"""The data sets that are known by name."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """What is known of a named data set."""

    what: str
    images: int
    classes: int
    origin: str
    url: str = ""
    """Of the page to get it from, where it is not fetched by itself."""
    download: str = ""
    """The file to get there."""
    unpacking: str = "unpack it if it is a zip file"
    """What to do with it."""


SOURCES = {
    "mnist": Source(
        "handwritten digits, 28 x 28, grey", 70_000, 10, "its HTTPS mirrors or the package index"
    ),
    "digits": Source("handwritten digits, 8 x 8, grey", 1_797, 10, "comes with scikit-learn"),
    "crc": Source(
        "colorectal tissue tiles, 224 x 224, colour (NCT-CRC-HE-100K)",
        100_000,
        9,
        "Zenodo, record 1214456",
        "https://zenodo.org/records/1214456",
        "NCT-CRC-HE-100K.zip, about 11.7 GB, MD5 6fd702d11df6292bc054397ae038a464",
    ),
    "pathmnist": Source(
        "the same tissue, 28 x 28, colour (MedMNIST)",
        107_180,
        9,
        "Zenodo, record 10519652",
        "https://zenodo.org/records/10519652",
        "pathmnist.npz, MD5 a8b06965200029087d5bd730944a56c1",
    ),
    "omniglot": Source(
        "handwritten characters, 105 x 105, grey; test alphabets are not trained on",
        32_460,
        1_623,
        "GitHub, brendenlake/omniglot",
        "https://github.com/brendenlake/omniglot",
        "images_background.zip and images_evaluation.zip, in its folder python",
        "unpack both into one folder",
    ),
    "cub": Source(
        "birds, colour; test species are not trained on (CUB-200-2011)",
        11_788,
        200,
        "Caltech's page of CUB-200-2011",
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "CUB_200_2011.tgz, about 1.1 GB",
        "unpack it",
    ),
}
EXAMPLES = {
    "crc": "crc:/path/to/NCT-CRC-HE-100K",
    "pathmnist": "pathmnist:/path/to/pathmnist.npz",
    "omniglot": "omniglot:/path/to/omniglot",
    "cub": "cub:/path/to/CUB_200_2011",
}
