"""What to write in `bridge.fit` in place of keywords that users of other functions bring."""

from __future__ import annotations

__all__ = ["INSTEAD"]

CHAINS = (
    "chains run only where no approximation serves, as many and as long as it takes until each "
    "quantity is worth ess=400 draws, which is the option to give; for chains of a set length call "
    "pm.sample(...), or stan_models.nuts(program, data, ...)"
)
INSTEAD = {
    **dict.fromkeys(
        ("chains", "tune", "cores", "target_accept", "nuts_sampler", "step", "init",
         "iter_warmup", "iter_sampling", "parallel_chains", "adapt_delta"),
        CHAINS,
    ),
    "method": "give methods=, one or several to try in turn",
    "seed": "give random_seed=",
    "n": "each method knows its own end; effort= bounds what approximations may take",
}  # fmt: skip
