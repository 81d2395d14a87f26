"""Builds the program, and makes the clients ready. It costs next to nothing the second time."""
import os
import shutil
import subprocess
import sys

from harness import EXAMPLES, HERE, ROOT
from harness.clients import BOTWIRE, BUILT, CLIENTS
from harness.processes import Failure

LOCKS = HERE / "locks"
PACKAGE = ROOT / "clients" / "python"
NODE_PACKAGE = ROOT / "clients" / "node"
UV_REQUIREMENTS = HERE / "requirements-uv.txt"
LIMIT = 600  # seconds for each step


def prepare(clients):
    if not shutil.which("go"):
        raise Failure("Go is missing: see https://go.dev/dl")
    command("make", "build")
    install_clients(clients)


def install_clients(clients):
    environments = {client.environment for client in clients}
    if "tools" in environments:
        need("curl", "curl")
        need("jq", "jq")
    if "node" in environments:
        node_modules(HERE)
        for client in clients:
            if client.example and client.environment == "node":
                node_modules(EXAMPLES / client.name)
    if "botwire" in environments:
        command(ROOT / "proof" / "venv", BOTWIRE, HERE / "requirements.txt", env={**os.environ, "PYTHON": sys.executable})
    for name, of_environment in by_environment(CLIENTS).items():
        if name in environments:
            virtual_environment(name, of_environment)


def virtual_environment(name, clients):
    """Installs the requirements of some examples together, with botwired's own package from this clone."""
    directory, lock = BUILT / name, LOCKS / f"{name}.txt"
    requirements = [EXAMPLES / client.name / "requirements.txt" for client in clients]
    made_of = "".join(path.read_text() for path in [UV_REQUIREMENTS, PACKAGE / "pyproject.toml", lock, *requirements])
    mark = directory / "made-of.txt"
    if mark.exists() and mark.read_text() == made_of:
        return
    environment = {**os.environ, "VIRTUAL_ENV": str(directory)}
    command(uv(), "venv", "--quiet", "--clear", "--python", sys.executable, directory)
    command(uv(), "pip", "install", "--quiet", "--compile-bytecode", "--constraint", lock, "--editable", PACKAGE, *_flagged(requirements),
            env=environment, cwd=EXAMPLES / clients[0].name)  # their paths to botwired's package begin at their folder
    installed = subprocess.run([uv(), "pip", "freeze", "--exclude-editable"], env=environment, capture_output=True, text=True, check=True).stdout
    locked = {line.partition(" ;")[0] for line in lock.read_text().splitlines()}
    if unlocked := sorted(set(installed.split()) - locked):
        raise Failure(f"{lock} lacks {', '.join(unlocked)}: run proof/e2e/run lock")
    mark.write_text(made_of)  # last: what was cut off is made again


def write_locks():
    """Locks the newest versions that the examples' requirements allow, for Python 3.11 and later."""
    overrides = BUILT / "overrides.txt"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text(f"botwired @ {PACKAGE.as_uri()}\n")
    for name, of_environment in by_environment(CLIENTS).items():
        command(uv(), "pip", "compile", "--quiet", "--upgrade", "--universal", "--python-version", "3.11", "--no-header", "--no-annotate",
                "--override", overrides, "--no-emit-package", "botwired", "--output-file", LOCKS / f"{name}.txt",
                *(EXAMPLES / client.name / "requirements.txt" for client in of_environment), cwd=EXAMPLES / of_environment[0].name)


def by_environment(clients):
    """The examples in Python, by the virtual environment that they share."""
    found = {}
    for client in clients:
        if client.environment not in ("tools", "node", "botwire"):
            found.setdefault(client.environment, []).append(client)
    return found


def uv():
    """Installs hundreds of packages in seconds, from a cache that all environments share."""
    command(ROOT / "proof" / "venv", BUILT / "uv", UV_REQUIREMENTS, env={**os.environ, "PYTHON": sys.executable}, quiet=True)
    return BUILT / "uv" / "bin" / "uv"


def _flagged(requirements):
    return [part for path in requirements for part in ("--requirement", path)]


def node_modules(folder):
    """Installs a folder's package-lock.json, with botwired's own package from this clone if that names it."""
    need("npm", "npm")
    made_of, mark = (folder / "package-lock.json").read_bytes(), folder / "node_modules" / "made-of.txt"
    if b"file:../../clients/node" in made_of:
        made_of += b"".join(path.read_bytes() for pattern in ("*.*", "lib/*") for path in sorted(NODE_PACKAGE.glob(pattern)))
    if not mark.exists() or mark.read_bytes() != made_of:
        command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
        mark.write_bytes(made_of)  # last: what was cut off is made again


def need(program, package):
    if not shutil.which(program):
        install(program, package)


def install(what, package):
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Failure(f"{what} is missing: install it (on Debian: apt-get install {package})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command("apt-get", "update", "-q", env=environment)
    command("apt-get", "install", "-q", "-y", "--no-install-recommends", package, env=environment)


def command(*args, env=None, cwd=ROOT, quiet=False):
    if not quiet:
        print("+", *args, flush=True)
    try:
        subprocess.run(args, cwd=cwd, env=env, check=True, timeout=LIMIT)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        raise Failure(str(e)) from None
