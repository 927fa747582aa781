"""Reference draws: the truth that comparisons judge by, made by Stan's NUTS.

`generate.generate` samples a case, thins and steps more carefully until the draws are good enough,
and writes them into the case's database; `admission` says what good enough is: posteriordb's
criteria, which are the only ones, so that the draws may be given to posteriordb as they are.

Add a criterion: its bound, its line in `admission_checks` and its advice, what a user should change
where it fails; draws that were admitted before must be checked again.

>>> from bridge.reference.admission import admission_checks, diagnose
>>> rng = np.random.default_rng(1)
>>> transitions = {"energy": rng.normal(size=(10, 1000)), "diverging": np.zeros((10, 1000))}
>>> admission_checks(diagnose({"x": rng.normal(size=(10, 1000))}, transitions))["r_hat_below_1_01"]
True
"""
