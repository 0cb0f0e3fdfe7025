"""The call that PML's losses share, of which a criterion here takes the first two arguments."""

from bayestriplet.errors import InputError


def check_unused(reason: str, **arguments: object) -> None:
    """Raise if one of PML's further arguments is given: ``reason`` says why it means nothing here."""
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name} must be None: {reason}")
