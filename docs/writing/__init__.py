"""Writes the generated pages of docs/reference and README's table of schemes: `python -m docs.writing`.

What they say follows from help texts, docstrings, models, scheme files and plans; tests fail where a page is stale.
"""
