"""A shop and its office as a small web site, tasks in it, and a way through each: the pure half of the GUI world.

`shop` is the database, `site` the pages and what their forms change, `tasks` what is asked and what is right, `solving`
a way through a task by the same pages. Nothing here opens a file, a socket or a browser.
"""
