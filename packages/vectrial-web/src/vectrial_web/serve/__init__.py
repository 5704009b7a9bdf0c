"""A folder of runs as web pages: see docs/serve.md.

`app` has the pages, `auth` decides who sees them, `runs` finds and summarises the runs, `trial`,
`trials` and `comparison` make documents of it, which `vectrial.document.render.html` lays out.
`start_pages` starts runs, each in a process of its own (`launcher`).
"""
