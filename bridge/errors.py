"""Errors of the bridge. Each message says what, expected, got, and the next step."""


class BridgeError(Exception):
    """Base of all errors of this package."""


class UnknownMethodError(BridgeError, KeyError):
    """A method name that is not in the table."""

    __str__ = Exception.__str__  # KeyError would print the message in quotes


class NoModelError(BridgeError):
    """A case lacks the form of the model (Stan program or PyMC port) a method needs."""


class RecordsError(BridgeError):
    """The file of records cannot be read or written."""


class UndefinedDensityError(BridgeError, ValueError):
    """A log density that is finite nowhere, or has no gradient where it is."""


class IncompleteReferenceError(BridgeError):
    """The reference draws lack parameters, so that the density cannot be evaluated at them."""


class UnreliableReferenceError(BridgeError):
    """Reference draws that nothing can be judged by: none, not admitted, or of another program."""


class ChangedCaseError(BridgeError):
    """A case is no longer what a comparison began with."""


class DiskFullError(RecordsError):
    """There is no room for the draws or the record of a run."""


class BambiVersionError(BridgeError, RuntimeError):
    """A bambi whose models cannot put draws into their form in a known way."""


class BrokenMethodError(BridgeError):
    """A method of another package that cannot be loaded, or not be sent to another process."""
