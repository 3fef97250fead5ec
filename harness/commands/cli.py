"""The `harness` command: joins the verbs, and turns mistakes into one clear line and exit code 2."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from types import FrameType

import click

from harness import __version__
from harness.commands.exit_codes import Exit
from harness.spec import UsageError

VERBS = {
    "bench": "measure one workload with the device's default arms, or your own; prints verdicts, writes a report",
    "matrix": "the same for the four standard workloads",
    "run": "run an experiment file, or go on with one that was interrupted",
    "aa": "compare identical runs, to learn what this machine can tell apart",
    "plan": "show what a run would measure, and what it would skip and why",
    "new": "write a workload or a treatment of your own to start from",
    "judge": "print the verdicts of an experiment from its results",
    "report": "rebuild reports from results, measuring nothing",
    "list": "list workloads, treatments, experiments, metrics or stored runs",
    "catalogue": "print the catalogue of all of them as Markdown",
    "gpu-check": "try every treatment on this device, and time its stacks",
    "claims": "test what the articles claim, and write the ledger of verdicts",
    "doctor": "look at this machine and say what would disturb or prevent a measurement",
    "status": "show what is planned, done, failed and superseded",
    "diff": "name what differs between the environments of two runs",
    "simulate": "write results with a known truth, for planning and for trying the judge",
    "power": "say how many blocks and minutes it takes to find an effect",
    "selftest": "measure how often the statistics are wrong",
    "compact": "merge the many small files of a results folder",
    "verify": "check a results folder for damaged, altered or foreign files",
}


class Verbs(click.Group):
    """Imports a verb's module only when it is called, so that the light ones start quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"harness.commands.{cmd_name.replace('-', '_')}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from harness.arms import nearest

        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise UsageError(f"no command '{args[0]}'{nearest(args[0], VERBS)} `harness --help` shows all")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="harness")
def cli() -> None:
    """Controlled trials of PyTorch optimizations: before/after verdicts that hold up in review."""


def one_line(text: str) -> str:
    """A message in which line breaks and invisible characters, which a name may bring with it, are escapes."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class Stopped(KeyboardInterrupt):
    """SIGTERM, and SIGHUP of a terminal that closes, ask for the same clean stop as Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def say(message: str) -> None:
    """Print one line on standard error; where that is closed or full, the exit code still says what happened."""
    with contextlib.suppress(OSError, AttributeError):
        click.echo(one_line(message), err=True)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with the code that `Exit` defines."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup asks to go on
        signal.signal(signal.SIGHUP, _stop)
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # `harness.__main__` left it so
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = cli.main(args=argv, prog_name="harness", standalone_mode=False)
    except UsageError as error:
        say(f"error: {error}")
        code = Exit.USER_ERROR
    except click.ClickException as error:
        with contextlib.suppress(OSError, AttributeError):
            error.show()
        code = Exit.USER_ERROR
    except (KeyboardInterrupt, click.exceptions.Abort) as error:  # click makes the second of the first
        stop = error.__cause__ or error
        code = 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)
    except BrokenPipeError:
        sys.stderr.close()
        code = Exit.FINE
    except OSError as error:
        say(f"error: {error.filename or 'a file'}: {error.strerror or error}")
        code = Exit.USER_ERROR
    except MemoryError:
        say("error: this process may use no more memory; give it more (ulimit -v, the container's limit) and try again")
        code = Exit.USER_ERROR
    sys.exit(int(code or 0))
