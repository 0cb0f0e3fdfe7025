"""The command in a process of its own that begins where the imports are done.

Python takes seconds to import what a training needs. A server has imported it once, and becomes the
command by a fork: exit code, output, signals, environment and folder are those of a real process.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("bayestriplet")
NEEDED = (
    "bayestriplet.cli.app", "bayestriplet.training.run", "bayestriplet.evaluation.evaluator",
    "bayestriplet.report.results", "lightning.pytorch", "onnxscript", "torch.onnx",
    "pytorch_metric_learning.losses", "tests.training.networks",
)  # fmt: skip

_servers = {}  # of this very process: a fork of it has none


def environment(**more):
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **more}


def run_command(*arguments, timeout=300, env=None, cwd=None):
    """Run the command; return a CompletedProcess with its output as text."""
    server = _servers.get(os.getpid()) or _servers.setdefault(os.getpid(), Server())
    command = [str(COMMAND), *map(str, arguments)]
    return server.run(command, timeout, env or environment(), str(cwd or os.getcwd()))  # noqa: PTH109


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )

    def run(self, command, timeout, env, cwd):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, errors)]
            asked = {"argv": command, "env": env, "cwd": cwd, "files": files}
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
            number = int(self.process.stdout.readline())
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
                self.process.stdout.readline()
                raise subprocess.TimeoutExpired(command, timeout)
            code = int(self.process.stdout.readline())
            texts = []
            for file in (out, errors):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(command, code, *texts)


def serve():
    """Fork for every line of stdin; return in the fork, or end."""
    import gc

    sys.path.pop(0)  # tests/, whose folders are no modules of their own
    for name in NEEDED:
        importlib.import_module(name)
    export_something()
    gc.freeze()  # what was imported stays in memory that is shared
    for line in sys.stdin:
        asked = json.loads(line)
        number = os.fork()
        if not number:
            become(asked)
            return
        print(number, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)
    raise SystemExit


def export_something():
    """Let the exporter read its operators before the first fork."""
    import torch

    from bayestriplet.model.onnx_export import _quiet
    from tests.exporting import remember_operators

    importlib.import_module("torch.onnx._internal.exporter._compat")
    remember_operators()
    with _quiet(), torch.random.fork_rng():
        torch.onnx.export(torch.nn.Linear(2, 2).eval(), (torch.zeros(2, 2),), dynamo=True, verbose=False)


def become(asked):
    """Take over arguments, environment, folder and output of the command."""
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    for number, path in enumerate([os.devnull, *asked["files"]]):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    serve()
    from bayestriplet.cli.app import main

    sys.exit(main())
