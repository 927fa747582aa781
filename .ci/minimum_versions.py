"""Prints the lower bounds of setup.cfg as pip constraints: the oldest versions promised to work."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

config = configparser.ConfigParser()
config.read(Path(__file__).resolve().parents[1] / "setup.cfg", encoding="utf-8")
extras = ("stan", "report", "test")
listed = [
    config["options"]["install_requires"],
    *(config["options.extras_require"][e] for e in extras),
]
for line in sorted(set("\n".join(listed).split("\n"))):
    if found := re.match(r"([\w-]+)>=([\d.]+)", line.strip()):
        print(f"{found[1]}=={found[2]}")
