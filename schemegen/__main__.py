"""`python -m schemegen` is the command `schemegen`."""

from schemegen.cli import main

if __name__ == "__main__":
    main()
