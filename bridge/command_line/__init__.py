"""The command line: ``python -m bridge``, ``python -m trusted_posteriors``, ``trusted-posteriors``.

`arguments` says what can be asked, `requests` what is wrong with what was asked; both before
anything heavy is imported. Then `fit`, `listing` or `comparisons` is imported and its function
``<command>_command(arguments, console)`` returns the exit status.

To add a command: its arguments in `arguments`, a function of that name in a file here, its line in
`bridge.__main__`; a check in `requests` where names or files of the user's are asked for.
"""
