"""The network: backbones, and the encoder that is saved and used."""
