"""`python -m harness` is the `harness` command."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command. Ctrl-C before it can answer ends it as it ends any program: by the signal, saying nothing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as below nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from harness.commands.cli import main as run

    run()


if __name__ == "__main__":
    main()
