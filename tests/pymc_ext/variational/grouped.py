"""Tests write options singly where each is a case of its own; the classes take them as values."""

from dataclasses import fields


def grouped(options: dict, **classes: type) -> dict:
    """``options``, those that are fields of a class given gathered into one value of it."""
    out = dict(options)
    for name, cls in classes.items():
        own = {f.name: out.pop(f.name) for f in fields(cls) if f.name in out}
        if own:
            out[name] = cls(**own)
    return out
