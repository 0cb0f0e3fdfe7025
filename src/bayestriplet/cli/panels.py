"""The groups that ``--help`` shows options in, the same words for every command."""

DATA = "Data"
IMAGES = "Images"
METHOD = "Method"
NETWORK = "Network"
ONNX = "Network from an ONNX file"
TRAINING = "Training"
COMPARISON = "Comparison"
MEASURES = "Measures"
NEIGHBOURS = "Neighbours"
INDEX = "Index"
TEACHING = "Teaching"
SERVER = "Server"
OUTPUT = "Output"

FIELDS = {  # of TrainConfig; help shows panels and options in this order
    OUTPUT: ("logger",),
    METHOD: ("method", "recipe", "margin", "temperature", "draw_classes", "loss_rate", "normalize"),
    DATA: ("split_by", "per_class", "imbalance", "label_noise", "without"),
    IMAGES: ("size", "augment", "skip_bad", "follow_links", "workers"),
    TRAINING: (
        "max_epochs", "max_steps", "batch_size", "batches", "lr", "validate_every", "patience", "seed",
        "devices",
    ),
    NETWORK: ("backbone", "weights", "freeze", "head", "unfreeze_from", "from_scratch", "width", "dim"),
    ONNX: ("backbone_sha256", "input_mean", "input_deviation", "input_range"),
}  # fmt: skip
PANEL_OF = {name: panel for panel, names in FIELDS.items() for name in names}
