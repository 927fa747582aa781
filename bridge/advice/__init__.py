"""`bridge.fit`: an answer to a posterior from the cheapest rung that serves, with its verdict.

`fit` checks what is asked for; `search` holds what is known of the posterior so far, `outside` what
each fit misses, with draws of a shoulder from `shoulder_draws`, `rungs` the order in which
approximations and chains are tried; `exact` runs chains, `own_sampler` the model's own where there
is no density. `answer` is what comes back, with its `summary`, its `kept_law` (a density to keep,
whose draws are judged in `own_draws`) and its page in a notebook, `answer_html`. `keywords` says
what to write in place of what `pm.sample` takes.
"""
