"""Runs the fenced blocks of a page from top to bottom, in an empty folder: `python -m docs.snippets PAGE…`.

- A block is written to a file where the text before it ends in "Write this as `mine.yaml`:", or in "write this as",
  and in no other words. Whatever its language, but `sh` and `console`. A later block of that name replaces the file.
- `sh`: commands; each has to end with 0.
- `console`: commands after `$ `, and below each what it prints, which is compared: times, rates, versions and absolute
  paths may differ, a line `...` stands for any lines. One that fails says `error:`. Without output nothing is compared.
- `python`: run, with the names of the page's earlier blocks; one with a file's name is compiled instead.
- `yaml`: with `formats:` it has to load as a scheme, with `rules:` as a policy. `toml` and `json` are parsed.
- `py` is for signatures: like `text`, and a block without a language, it is not looked at.

What cannot be run in a test stands in `exceptions.py`, with the reason.
"""
