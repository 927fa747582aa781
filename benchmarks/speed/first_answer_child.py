"""One answer in a process of its own: ``python -m benchmarks.speed.first_answer_child ROW FOLDER``.

The parent (`benchmarks.speed.first_answer`) holds the watch; the last line of the output is what
the process found, as JSON. Nothing is imported before a row needs it, PyTensor included.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import re
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.speed.first_answer_models import MODELS

ANSWER = "ANSWER "  # begins the line with the answer
DRAWS, STEPS, SEED = 1000, 3000, 1
COMPILERS = ("pytensor.compile.function.types", "pytensor.compile.maker")  # PyTensor 2, 3
KHAT = re.compile(r"^(?P<method>[\w-]+): .*?k̂ = (?P<khat>-?[\d.]+)", re.MULTILINE)


class Imports:
    """Stands in for ``__import__``: seconds in the outermost import statements, lazy ones too.

    After each it looks whether PyTensor's compiler has come, to count the functions it makes.
    """

    def __init__(self) -> None:
        self.seconds, self.functions, self.depth = 0.0, 0, 0
        self.real, self.counting = builtins.__import__, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.depth:
            return self.real(*args, **kwargs)
        begin, self.depth = time.perf_counter(), 1
        try:
            return self.real(*args, **kwargs)
        finally:
            self.depth = 0
            self.seconds += time.perf_counter() - begin
            if not self.counting:
                self.count_functions()

    def count_functions(self) -> None:
        for name in COMPILERS:
            maker = getattr(sys.modules.get(name), "FunctionMaker", None)
            if maker is None or "create" not in vars(maker):
                continue
            self.counting, create = True, maker.create

            def counted(this: Any, *args: Any, create: Any = create, **kwargs: Any) -> Any:
                self.functions += 1
                return create(this, *args, **kwargs)

            maker.create = counted
            return


def cpu_seconds() -> float:
    """Of this process and the children it has waited for."""
    return sum(os.times()[:4])


def approximation(model: Any, method: str) -> dict[str, Any]:
    """Fit one of our families, draw, and judge."""
    import pymc as pm

    import pymc_ext as px

    steps: dict[str, Any] = {}
    with model:
        if method == "laplace":
            inference: Any = px.LaplaceVI(random_seed=SEED)
        elif method == "mixed-eig":
            inference = px.MixedVI("eig", random_seed=SEED)
        else:
            inference = px.BernsteinVI(random_seed=SEED)
            steps = {"n": STEPS} if method == f"bernstein-{STEPS}" else {}
        approx = pm.fit(method=inference, progressbar=False, **steps)
    idata = approx.sample(DRAWS, random_seed=SEED)

    import bridge

    stats = idata["sample_stats"]
    k = bridge.pareto_khat(stats["lp"].to_numpy().ravel(), stats["lq"].to_numpy().ravel())
    return {"khat": k.value, "elbo": float(approx.result.elbo)}


class FirstDraw(Exception):
    """Stops a sampler at its first draw."""


def pymc_nuts(model: Any, method: str) -> dict[str, Any]:
    """`pm.sample` with its defaults: 4 chains of 1000 + 1000; when its draws began."""
    import pymc as pm

    begun: dict[str, float] = {}

    def note(trace: Any, draw: Any) -> None:
        begun.setdefault("first_draw", time.time())
        if not draw.tuning:
            begun.setdefault("first_kept_draw", time.time())
        if "first" in method:
            raise FirstDraw

    options: dict[str, Any] = {"cores": 1} if "1-core" in method else {}
    if "nutpie" in method:
        options["nuts_sampler"] = "nutpie"
    else:  # said, because PyMC 6 takes nutpie where it is installed
        options |= {"nuts_sampler": "pymc", "callback": note}
    with model, contextlib.suppress(FirstDraw):
        idata = pm.sample(chains=4, random_seed=SEED, progressbar=False, **options)
        return begun | judged(idata)
    return begun


def judged(idata: Any) -> dict[str, Any]:
    """The largest R-hat and the smallest effective sample size of a sampler's draws."""
    import arviz as az

    posterior = idata["posterior"]
    posterior = getattr(posterior, "dataset", posterior)  # ArviZ 1 has data trees
    rhat, ess = az.rhat(posterior), az.ess(posterior)
    return {
        "rhat": max(float(values.max()) for values in rhat.data_vars.values()),
        "ess": min(float(values.min()) for values in ess.data_vars.values()),
    }


def density(model: Any) -> dict[str, Any]:
    """Compile the log density with its gradient and call it once."""
    import numpy as np

    point = model.initial_point(0)
    f = model.logp_dlogp_function(ravel_inputs=True, initial_point=point)
    f.set_extra_values({})
    f(np.concatenate([np.ravel(value) for value in point.values()]))
    return {}


def later(models: str, method: str, watch: Imports) -> dict[str, Any]:
    """A flow on the first of two models; then a flow, or the density alone, on the second."""
    first, second = (MODELS[name] for name in models.split("+"))
    approximation(first(), f"bernstein-{STEPS}")
    model = second()
    wall, cpu, functions, imports = time.time(), cpu_seconds(), watch.functions, watch.seconds
    found = density(model) if method == "density" else approximation(model, method)
    return found | {
        "second_wall_s": time.time() - wall,
        "second_cpu_s": cpu_seconds() - cpu,
        "second_functions": watch.functions - functions,
        "second_import_s": watch.seconds - imports,
    }


def command(arguments: list[str]) -> dict[str, Any]:
    """``python -m bridge`` with these arguments; the k̂ its lines tell, and what was taken."""
    text, argv = io.StringIO(), sys.argv
    sys.argv = ["bridge", *arguments]
    try:
        with contextlib.redirect_stdout(text):
            runpy.run_module("bridge", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"python -m bridge ended with {end.code}") from end
    finally:
        sys.argv = argv
    return read_reasons(text.getvalue())


def read_reasons(text: str) -> dict[str, Any]:
    """What ``python -m bridge fit`` says: k̂ of all it tried, the method it took, and that one's."""
    khats = {match["method"]: float(match["khat"]) for match in KHAT.finditer(text)}
    taken = re.search(r"^taken: (\S+)", text, re.MULTILINE)
    if taken is None:
        raise ValueError(f"expected a line 'taken: METHOD', got {text!r}")
    return {"taken": taken[1], "khat": khats.get(taken[1]), "tried": khats}


def stan(model: str, method: str, folder: Path) -> dict[str, Any]:
    """On a compiled Stan program: the command line, Stan's NUTS, or the imports alone."""
    if method == "import":
        import bridge.__main__  # noqa: F401

        return {}
    program, data = (folder / f"{model.replace('-', '_')}.{end}" for end in ("stan", "json"))
    if method == "nuts":
        import stan_models

        return judged(stan_models.nuts(stan_models.StanProgram(program), data, random_seed=SEED))
    choice = {"bridge-laplace": ["--methods", "laplace"], "bridge": []}[method]
    out = ["--out", str(folder / "posterior.nc"), "--overwrite"]
    return command(["fit", str(program), str(data), *choice, *out])


def pymc(model: str, method: str) -> dict[str, Any]:
    """On a PyMC model: one of our families, a sampler, the density or the imports alone."""
    if method == "import":
        import bridge  # noqa: F401
        import pymc_ext  # noqa: F401

        return {}
    made = MODELS[model]()
    if method == "density":
        return density(made)
    return (pymc_nuts if method.startswith("nuts") else approximation)(made, method)


def prepare(models: str, folder: Path) -> dict[str, Any]:
    """Compile every module's bytecode, and the Stan programs named, before anything is timed."""
    import bridge.__main__  # noqa: F401
    import stan_models
    from benchmarks.speed.first_answer_models import stan_files

    for model in filter(None, models.split("+")):
        program, data = stan_files(model, folder)
        compiled = stan_models.StanProgram(program)
        compiled.compile()
        _ = compiled.density(data).dimension
    return {}


def main(row: str, folder: str) -> None:
    watch = Imports()
    builtins.__import__ = watch
    group, model, method = row.split("/")
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "prepare": lambda: prepare(model, Path(folder)),
        "stan": lambda: stan(model, method, Path(folder)),
        "pymc": lambda: pymc(model, method),
        "later": lambda: later(model, method, watch),
    }
    found = runs[group]()
    found |= {"import_s": watch.seconds, "compiled_functions": watch.functions}
    print(ANSWER + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
