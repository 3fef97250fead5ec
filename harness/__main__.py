"""`python -m harness` is the `harness` command."""

from harness.commands.cli import main

if __name__ == "__main__":
    main()
