"""The workbench: tasks in a small company whose tools have to be found, described and called.

An agent sees three functions (search, describe, call) and through them more than fifty tools in eight namespaces. Some
have twins that are deprecated or leave something behind, some are walled off, some may be called a few times only,
and some do not do what their names suggest. What is right is a state of the company: a task is done when the company
is what it was but for what was asked, done as this house does it. The house's habits stand nowhere in it: managers
know them.

No input or output and no clock: the same seed gives the same company on every machine.
"""
