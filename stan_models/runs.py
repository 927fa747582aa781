"""One run of CmdStan: its files live in a temporary folder, its failures become `StanRunError`."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stan_models.density import Data, StanDensity
from stan_models.errors import StanRunError
from stan_models.program import StanProgram
from stan_models.toolchain import import_cmdstanpy
from stan_models.toolchain.children import descendants

Inits = float | Mapping[str, ArrayLike] | str | PathLike[str] | None  # as cmdstanpy takes them
SIGNIFICANT_FIGURES = 18  # decimals that give back the same double
LOOK = 0.05  # seconds between looks at what is yet to end
COMPLAINT = re.compile(
    r"^(E[rx].*|.*(?:rror|xception|ailed|failure|converged|diverg|ill-conditioned).*)$", re.M
)


class CmdStanRun:
    """A CmdStan call in progress: where it writes, and how long it took."""

    def __init__(self, program: StanProgram, method: str, folder: Path) -> None:
        self.program, self.method, self.folder = program, method, folder
        self.model = program.cmdstan_model
        self.seconds = 0.0

    @property
    def console(self) -> str:
        """What Stan printed, all processes one after the other."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("*-stdout*.txt")))

    def call(self, method: str, **arguments: object) -> Any:
        """Result of a method of the CmdStanModel, a class for each; keeps the wall time.

        Ctrl-C ends its processes, those that cmdstanpy has yet to start among them, in silence.
        """
        _check_timeout(arguments.get("timeout"))
        run = partial(
            getattr(self.model, method),
            output_dir=self.folder, sig_figs=SIGNIFICANT_FIGURES, **arguments,
        )  # fmt: skip
        start, others = time.perf_counter(), descendants()
        # In a thread of its own, as Ctrl-C would leave cmdstanpy's threads behind, one of them
        # marked as ended while it goes on (Python's `Thread.join` until 3.12).
        with ThreadPoolExecutor(1) as caller:
            called: Future[object] | None = None
            try:
                called = caller.submit(run)
                return called.result()
            except KeyboardInterrupt:
                if called is not None:
                    _end(called, others)
                raise KeyboardInterrupt(
                    f"interrupted while Stan's {self.method} ran on {self.program.name!r}: nothing "
                    "is kept"
                ) from None
            finally:
                self.seconds += time.perf_counter() - start

    def require_rows(self, found: int, expected: int) -> None:
        """Raise unless Stan wrote as many draws as it was asked for."""
        if found != expected:
            raise self.fail(f"it wrote {found} draws, expected {expected}")

    def fail(self, reason: str) -> StanRunError:
        """The error to raise: the reason and what Stan said."""
        complaints = dict.fromkeys(COMPLAINT.findall(self.console))
        said = "\n".join(list(complaints)[-10:])
        said = said or "\n".join(self.console.strip().splitlines()[-5:]) or "nothing"
        return StanRunError(
            f"Stan's {self.method} on {self.program.name!r} failed: {reason}\nStan said:\n{said}"
        )


@contextmanager
def cmdstan_run(program: StanProgram, method: str) -> Iterator[CmdStanRun]:
    """Run CmdStan in a folder of its own, removed afterwards; argument errors pass unchanged."""
    cmdstan = import_cmdstanpy()
    with tempfile.TemporaryDirectory(prefix=f"{program.name}-") as folder:
        run = CmdStanRun(program, method, Path(folder))
        try:
            with cmdstan.disable_logging():
                yield run
        except StanRunError:
            raise
        except TimeoutError as error:
            raise run.fail(f"it was stopped at the time limit ({error})") from error
        except (RuntimeError, OSError) as error:
            raise run.fail(_ended(str(error))) from error
        except ValueError as error:
            if "parsing Stan csv" not in str(error):
                raise
            raise run.fail("it left an incomplete output file") from error


def _ended(message: str) -> str:
    """How the processes ended, from cmdstanpy's message."""
    found = re.search(r"retcodes=\[([-\d, ]+)\]", message)
    codes = [int(code) for code in found[1].split(",")] if found else []
    signals = sorted({signal.Signals(-code).name for code in codes if code < 0})
    if signals:
        return f"its process was killed by {', '.join(signals)}; no result was kept, run it again"
    if codes:
        return f"it ended with code {max(codes)}"
    return message.strip().splitlines()[0].partition(" Command '")[0]


def _end(called: Future[object], others: set[int]) -> None:
    """End the processes that a call waits for, all but ``others``, until it has returned, however
    often Ctrl-C is pressed by then."""
    while not called.done():
        with suppress(KeyboardInterrupt):
            for process in descendants() - others:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGTERM)
            wait([called], LOOK)


def density_of(program: StanProgram, data: Data) -> StanDensity:
    """The density that a run is of; TypeError where ``program`` is something else, such as text."""
    if not isinstance(program, StanProgram):
        raise TypeError(
            f"program must be a stan_models.StanProgram, got {type(program).__name__}: write "
            "StanProgram(...) of the source text or of the path of a .stan file"
        )
    return program.density(data)


def random_seed_or_new(random_seed: int | None) -> int:
    """The seed to give Stan; a fresh one, to be recorded, if None.

    TypeError or ValueError unless it is one or None, in the words of `pymc_ext.seeds.check_seed`,
    which this package does not import.
    """
    if random_seed is None:
        return int(np.random.default_rng().integers(1, 2**31))
    allowed = "random_seed must be None or an integer from 0 to 2**32 - 1"
    if isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        plain = isinstance(random_seed, bool | float | str)
        got = repr(random_seed) if plain else f"a {type(random_seed).__name__}"
        raise TypeError(f"{allowed}, got {got}: give an integer")
    if not 0 <= random_seed < 2**32:
        raise ValueError(f"{allowed}, got {random_seed}: give one in this range")
    return int(random_seed)


def _check_timeout(timeout: object) -> None:
    """ValueError unless a time limit is None or seconds above 0."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout must be seconds above 0, or None for no limit, got {timeout!r}")


def check_inits(inits: object, density: StanDensity) -> None:
    """ValueError where values are given for names that are no parameters of the program.

    Stan starts the parameters that a mapping leaves out at random, and says nothing of the rest.
    """
    given = inits if isinstance(inits, list | tuple) else [inits]
    names = [name for one in given if isinstance(one, Mapping) for name in one]
    unknown = [name for name in dict.fromkeys(names) if name not in density.parameter_names]
    if unknown:
        raise ValueError(
            f"inits must name parameters of the program ({', '.join(density.parameter_names)}), "
            f"got {', '.join(map(repr, unknown))}"
        )


def positive(**counts: int) -> None:
    """Raise ValueError unless every count is an integer >= 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {count!r}")
