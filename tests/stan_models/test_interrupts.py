"""Ctrl-C while CmdStan samples: its processes end, and one line says so."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

import pytest

from stan_models import nuts
from stan_models.toolchain.children import descendants

pytestmark = pytest.mark.stan


def test_ctrl_c_ends_all_chains_in_silence(program, caplog) -> None:
    """Of four chains, two at a time, the last two have not begun; pressed twice."""
    others, seen = descendants(), list[bool]()

    def press() -> None:
        while len(descendants() - others) < 1 + 2:  # `ps`, which lists them, is one
            time.sleep(0.02)
        seen.append(True)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)  # Python alone, as a notebook does
            time.sleep(0.02)

    slow = program("slow")
    slow.density({"K": 1})
    before = threading.enumerate()
    pressing = threading.Thread(target=press)
    pressing.start()
    with (
        caplog.at_level(logging.INFO, "cmdstanpy"),
        pytest.raises(KeyboardInterrupt, match="while Stan's NUTS ran on 'slow': nothing is kept"),
    ):
        nuts(slow, {"K": 2_000_000}, parallel_chains=2, random_seed=1)
    assert seen and len(descendants() - others) == 1
    assert not [record for record in caplog.records if "Chain" in record.message]
    pressing.join()
    assert not set(threading.enumerate()) - set(before)
