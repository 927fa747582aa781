"""PyMC ports, one file per posteriordb model name, each with ``model(data) -> pm.Model``."""
