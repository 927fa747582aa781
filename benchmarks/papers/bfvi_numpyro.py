"""NumPyro's AutoIAFNormal on non-centred eight schools, for ``bfvi_side_by_side``.

    PEERS/bin/python benchmarks/papers/bfvi_numpyro.py SECONDS SEED

Runs in an environment of its own (``pip install numpyro``); imports nothing of this project.
Prints one JSON line: ELBO, log importance ratios' file, steps and seconds, where the seconds run
from before the model is traced and hold compiling, and the steps are as many as fit in SECONDS.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoIAFNormal

Y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SD = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
DRAWS, BLOCK = 50_000, 1000


def model() -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    theta = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0).expand([8]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + tau * theta, SD).to_event(1), obs=Y)


def main() -> None:
    budget, seed = float(sys.argv[1]), int(sys.argv[2])
    numpyro.enable_x64()
    begin = time.perf_counter()
    guide = AutoIAFNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.005), Trace_ELBO(num_particles=10))
    state = svi.init(jax.random.PRNGKey(seed))
    run = jax.jit(lambda s: jax.lax.fori_loop(0, BLOCK, lambda i, t: svi.update(t)[0], s))
    steps = 0
    while time.perf_counter() - begin < budget:
        state, steps = jax.block_until_ready(run(state)), steps + BLOCK
    seconds = time.perf_counter() - begin
    params = svi.get_params(state)

    def log_ratio(key: jax.Array) -> jax.Array:
        return -Trace_ELBO().loss(key, params, model, guide)

    keys = jax.random.split(jax.random.PRNGKey(1000 + seed), DRAWS)
    ratios = np.asarray(jax.jit(jax.vmap(log_ratio))(keys))
    with tempfile.NamedTemporaryFile(suffix=".npy", delete=False) as file:
        np.save(file, ratios)
    print(json.dumps({"elbo": ratios.mean(), "file": file.name, "steps": steps,
                      "seconds": seconds, "version": numpyro.__version__}))  # fmt: skip


if __name__ == "__main__":
    main()
