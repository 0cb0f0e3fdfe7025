"""Every error the library raises on purpose; each is also the builtin a caller would expect."""

import re


class BayesTripletError(Exception):
    """Base of all errors of this library.

    >>> try:
    ...     bt.ClassPosterior(num_classes=1, dim=2)
    ... except bt.BayesTripletError as error:
    ...     print(error)
    num_classes must be at least 2; got 1
    """


class InputError(BayesTripletError, ValueError):
    """An argument has a value that is not allowed."""


class InputTypeError(BayesTripletError, TypeError):
    """An argument has a type that is not allowed."""


class StateError(BayesTripletError, RuntimeError):
    """What was asked for does not exist in the current state (yet)."""


class MissingDependencyError(BayesTripletError, ImportError):
    """An optional package is needed and not installed."""


class DataError(BayesTripletError, ValueError):
    """A file or folder of images is missing, broken or not laid out as it should be."""


class WriteError(InputError):
    """A file cannot be written: no room, no rights, no such folder."""


class StoreError(InputError):
    """The store that was named for an index cannot be reached, read or written."""


class DivergenceError(BayesTripletError, ArithmeticError):
    """A training broke down: its loss or its embeddings are no longer finite."""


class ProcessError(BayesTripletError, RuntimeError):
    """Another process of a training was killed, has failed, or does not answer."""


def last_line(error: BaseException) -> str:
    """Return what an error says in one line.

    One that was raised in a worker process has that process's whole traceback as its message.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^bayestriplet\.errors\.\w+: ", "", lines[-1])


def reason_of(error: BaseException) -> str:
    """Return what an error says in one line: its system message, its first line, or its name."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(reason).splitlines()[0]


NO_MEMORY = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory|bad_alloc|failed to map segment",
    re.IGNORECASE,
)


def is_want_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is short; torch and the loader have none of their own."""
    return isinstance(error, MemoryError) or bool(NO_MEMORY.search(str(error)))
