"""Updates and appends through nginx and Apache, which compress answers: see the script gateways beside this file."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from botwired import Memory
from botwired._log import Log

PROCESSES, UPDATES, APPENDS = 4, 250, 25
APACHE = "/usr/lib/apache2/modules/mod_"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_port(port: int) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def nginx(folder: Path, port: int, to: int) -> list[str]:
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"""
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{}}
http {{
  access_log off; {temporary}
  gzip on; gzip_types application/json; gzip_min_length 0; gzip_proxied any;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{to}; }} }}
}}""")
    return ["nginx", "-c", f"{folder}/nginx.conf"]


def apache(folder: Path, port: int, to: int) -> list[str]:
    modules = ("mpm_event", "authz_core", "proxy", "proxy_http", "filter", "deflate")
    (folder / "apache.conf").write_text(f"""
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
DefaultRuntimeDir {folder}
{"".join(f"LoadModule {name}_module {APACHE}{name}.so{os.linesep}" for name in modules)}
SetOutputFilter DEFLATE
ProxyPass / http://127.0.0.1:{to}/
""")
    return ["apache2", "-D", "FOREGROUND", "-f", f"{folder}/apache.conf"]


def work(url: str, namespace: str) -> None:
    memory = Memory(namespace, base_url=url)
    for _ in range(UPDATES):
        memory.update("count", lambda n: n + 1, default=0)
    log = Log(memory, "log")
    for _ in range(APPENDS):
        log.append([os.getpid()])


def through(name: str, url: str, direct: Memory) -> bool:
    direct.set("tag", "x" * 1000)
    tag = httpx.get(f"{url}/memory/{direct.namespace}/tag").headers.get("etag")
    processes = [multiprocessing.Process(target=work, args=(url, direct.namespace)) for _ in range(PROCESSES)]
    began = time.monotonic()
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    count, items = direct.get("count"), Log(direct, "log").read()
    wanted = (PROCESSES * UPDATES, PROCESSES * APPENDS)
    print(f"{name}: tags such as {tag}; {count} of {wanted[0]} updates, {len(items)} of {wanted[1]} appends, "
          f"in {time.monotonic() - began:.1f} s")
    return (count, len(items)) == wanted and not any(each.exitcode for each in processes)


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)  # Apache's workers are another account's
        port = free_port()
        daemon = subprocess.Popen(
            ["bin/botwired", "serve", "--upstream", "embedded", "--data-dir", f"{folder}/data", "--listen", f"127.0.0.1:{port}"],
            stderr=subprocess.DEVNULL,
        )
        try:
            await_port(port)
            for name, gateway in (("nginx", nginx), ("apache", apache)):
                front = free_port()
                server = subprocess.Popen(gateway(folder, front, port))
                try:
                    await_port(front)
                    failed += not through(name, f"http://127.0.0.1:{front}", Memory(name, base_url=f"http://127.0.0.1:{port}"))
                finally:
                    server.terminate()
                    server.wait()
        finally:
            daemon.terminate()
            daemon.wait()
    print(f"gateways: {2 - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
