"""Builds the program, and makes the clients ready. It costs next to nothing the second time."""
import os
import shutil
import subprocess
import sys

from harness import EXAMPLES, HERE, ROOT
from harness.clients import BOTWIRE, BUILT
from harness.processes import Failure

LIMIT = 600  # seconds for each step


def prepare(clients):
    if not shutil.which("go"):
        raise Failure("Go is missing: see https://go.dev/dl")
    command("make", "build")
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
    for environment in sorted(environments - {"tools", "node", "botwire"}):
        virtual_environment(environment, [c for c in clients if c.environment == environment])


def virtual_environment(environment, clients):
    """Installs the requirements of some examples together, in the versions of their lock."""


def node_modules(folder):
    """Installs a folder's package-lock.json."""
    need("npm", "npm")
    lock, installed = folder / "package-lock.json", folder / "node_modules" / "installed.json"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
        shutil.copy(lock, installed)  # last: what was cut off is made again


def need(program, package):
    if shutil.which(program):
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Failure(f"{program} is missing: install it (on Debian: apt-get install {package})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command("apt-get", "update", "-q", env=environment)
    command("apt-get", "install", "-q", "-y", "--no-install-recommends", package, env=environment)


def command(*args, env=None, cwd=ROOT):
    print("+", *args, flush=True)
    try:
        subprocess.run(args, cwd=cwd, env=env, check=True, timeout=LIMIT)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        raise Failure(str(e)) from None
