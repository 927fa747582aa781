"""Report: the records of a comparison as tables, figures and a page.

`metrics` is the one table of what is shown, where, under which heading and with how many digits.
`stored` reads what a comparison left, `summary` takes medians over seeds and gathers failures,
`unseen` what k̂ did not see.
Then `terminal` prints, `files` writes CSV and (`figures`) PNG, and `html_report` makes one page
that needs no network, of `html_tables`, `html_figures` and a section a posterior (`html_case`), put
into `html_page`. Take the terminal for a few runs, the page for a sweep.

Add a metric: a column that `bridge.comparison.judge` puts into records, and one line in `metrics`.

>>> import pandas as pd
>>> from bridge.report.summary import summary
>>> runs = pd.DataFrame({"case_name": "a", "method": "m", "status": "ok", "elbo": [1.0, 2.0, 9.0]})
>>> float(summary(runs).loc[0, "elbo"])
2.0
"""
