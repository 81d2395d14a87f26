#!/usr/bin/python3
"""The steps of `make systemd`, run by the container's systemd as root. proof/service/run boots it.

Each block of docs/service.md that says `tried by: make systemd` runs in its order, with bash -e, in the folder of
the archive. systemctl edit gets the page's ini block that follows, on a terminal, by an editor that copies it. Each check
is what the page promises there.
"""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

URL, UPSTREAM = "http://127.0.0.1:2689", "http://127.0.0.1:8100"
RESTARTS = 10
DROPINS = Path("/etc/systemd/system/botwired.service.d")
ENVIRON = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
    "SYSTEMD_PAGER": "cat", "SYSTEMD_EDITOR": "/tmp/editor", "SYSTEMD_COLORS": "0", "TERM": "dumb",
}
result = open("/check/result", "a", buffering=1)
steps = 0


class Failure(Exception):
    pass


def run(script, user=None, fails=False, limit=60):
    """Runs a script by bash -e; returns what it says."""
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    if user:
        command = ["runuser", "-u", user, "--", *command]
    done = subprocess.run(command, cwd="/tmp/archive", env=ENVIRON, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
    if (done.returncode != 0) != fails:
        raise Failure(f"exit code {done.returncode}:\n{script}\n{done.stdout}")
    return done.stdout


def holds(what, is_so=True, detail=""):
    global steps
    if not is_so:
        raise Failure(f"{what}: it does not hold {detail}")
    steps += 1
    print("ok     ", what, file=result)


def page():
    """The page's blocks: the heading, the commands, and the ini block that follows at once."""
    heading, blocks = "", []
    text = Path("/archive/docs/service.md").read_text()
    for m in re.finditer(r"^#+ (?P<heading>[^\n]*)$|(?P<tried><!-- tried by: make systemd -->\n)?```(?P<language>sh|ini)\n(?P<body>.*?)^```$", text, re.M | re.S):
        if m["heading"]:
            heading = m["heading"]
        elif m["language"] == "ini":
            blocks[-1]["ini"] = m["body"]
        elif m["tried"] or "config init" in m["body"]:
            blocks.append({"heading": heading, "script": m["body"], "ini": ""})
    return blocks


def follow(heading, count, user=None):
    """Runs the next blocks of the page, which are under that heading."""
    for _ in range(count):
        block = blocks.pop(0)
        if block["heading"] != heading:
            raise Failure(f"the page has a block under {block['heading']!r}, and the steps expect one under {heading!r}")
        script = block["script"]
        script = re.sub(r"^journalctl (.*) -f\b", r"journalctl \1 -n 3", script, flags=re.M)  # -f has no end
        script = re.sub(r"(botwired doctor)$", r"\1 || test $? = 3 # warnings: no agent has come yet", script, flags=re.M)
        if "systemctl edit" in script:
            Path("/tmp/edited").write_text(block["ini"])
            script = re.sub(r"^(systemctl edit .*)$", r"script -qec '\1' /dev/null", script, flags=re.M)
        run(script, user)
    holds(f"{heading}: {count} block{'s' * (count > 1)} followed")


def show(name):
    return run(f"systemctl show botwired -p {name} --value").strip()


def dropin(name, text):
    (DROPINS / name).write_text("[Service]\n" + text)
    run("systemctl daemon-reload; systemctl restart botwired")


def restarts():
    callers = subprocess.Popen([sys.executable, "/check/callers.py", URL, UPSTREAM, "restarts"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        time.sleep(1)
        for _ in range(RESTARTS):
            run("systemctl restart botwired")
            time.sleep(0.3)
        callers.send_signal(signal.SIGTERM)
        said, _ = callers.communicate(timeout=90)
    finally:
        callers.kill()
    holds(f"{RESTARTS} restarts with a socket unit, nobody refused, nothing lost: {said.strip()}", callers.returncode == 0)


def machine():
    follow("Linux, for the whole machine", 1)
    holds("active, when systemctl returns", run("systemctl is-active botwired") == "active\n")
    follow("Look at it", 1)
    pid = show("MainPID")
    for path, may in {"/var/lib/botwired/x": True, "/etc/botwired/x": False, "/etc/x": False, "/usr/x": False}.items():
        run(f"nsenter -t {pid} -m -S $(id -u botwired) -G $(id -g botwired) touch {path}", fails=not may)
    run("rm /var/lib/botwired/x")
    holds("the daemon can write to its data, and nowhere else", os.stat("/etc/botwired").st_uid == 0)
    follow("Change settings", 3)
    run("systemctl restart botwired; journalctl -u botwired -o cat | grep 'the configuration was reloaded'")
    holds("the drop-in counts", "BOTWIRED_LOG_LEVEL=debug" in show("Environment") and show("MemoryMax") == str(4 << 30))
    run(f"rm {DROPINS}/override.conf; systemctl daemon-reload; systemctl restart botwired")


def tokens():
    follow("Let only some users in", 1)
    time.sleep(0.5)
    named = "botwired status --auth-token-file /etc/botwired/token"
    holds("a caller without the token is refused", "401" in run("botwired status", user="other", fails=True))
    run(named)
    run("cat /etc/botwired/token", user="other", fails=True)
    run("sed -i '/^auth.token_file/d' /etc/botwired/config.yaml; chown root: /etc/botwired/token")
    dropin("token.conf", "LoadCredential=token:/etc/botwired/token\nEnvironment=BOTWIRED_AUTH_TOKEN_FILE=%d/token\n")
    run(named)
    holds("a token by LoadCredential=, which root alone may read", "401" in run("botwired status", user="other", fails=True))
    run(f"rm {DROPINS}/token.conf; systemctl daemon-reload; systemctl restart botwired; botwired status")


def sockets():
    follow("Let only some users in", 2)
    run("usermod -aG agents agent")
    connect = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/run/botwired.sock\")'"
    run(connect, user="agent")
    run(connect, user="other", fails=True)
    holds("the socket's group decides who may connect")
    run("systemctl disable --now botwired.socket botwired.service; rm -r /etc/systemd/system/botwired.socket.d; systemctl daemon-reload; systemctl enable --now botwired.service")
    follow("Restarts that refuse nobody", 1)
    restarts()
    run("systemctl stop botwired.service 2>&1; botwired status --ready; systemctl is-active botwired.service")
    holds("a caller starts a stopped service")


def hangs():
    dropin("watchdog.conf", "WatchdogSec=2s\n")
    for signal_ in (signal.SIGSTOP, signal.SIGKILL):
        run("botwired set life last " + signal_.name)
        pid = show("MainPID")
        os.kill(int(pid), signal_)
        begun = time.monotonic()
        value = run(f"python3 -c 'import requests; print(requests.get(\"{URL}/memory/life/last\", timeout=30).json()[\"value\"])'").strip()
        holds(f"{signal_.name}: a caller waited {time.monotonic() - begun:.1f} s for the next daemon", value == signal_.name and show("MainPID") != pid)


def ends():
    pid = show("MainPID")
    follow("Upgrade", 1)
    holds("another daemon runs", show("MainPID") not in (pid, "0"))
    follow("Uninstall", 1)
    left = run("find /etc /run /usr/local/bin -name '*botwired*' -not -path '*/units/invocation*'; ls /var/lib/botwired/journal >&2").split()
    holds("only data, configuration and user are left", "/etc/botwired" in left and not [p for p in left if p.startswith(("/etc/systemd", "/etc/sysusers", "/usr"))], str(left))


def one_user():
    uid = run("id -u agent").strip()
    run(f"systemctl start basic.target systemd-logind.service; systemctl start user@{uid}.service; cp -r /tmp/archive /home/agent/archive; chown -R agent: /home/agent/archive")
    ENVIRON.update({"HOME": "/home/agent", "XDG_RUNTIME_DIR": f"/run/user/{uid}"})
    blocks[0]["script"] = "cd ~/archive\n" + blocks[0]["script"]
    follow("Linux, for one user", 2, user="agent")
    run("~/.local/bin/botwired set a b c; systemctl --user restart botwired; ~/.local/bin/botwired get a b; ls ~/.local/state/botwired/journal", user="agent")
    holds("a user's own daemon keeps what it has over a restart")


def main():
    run_first = """
        cp -r /archive/. /tmp/archive
        useradd -m agent; useradd -m other
        printf '#!/bin/sh\\ncat /tmp/edited >"$1"\\n' >/tmp/editor; chmod +x /tmp/editor
        systemd-run -q --unit=upstream /tmp/archive/botwired selfhost --listen 127.0.0.1:8100 --db /var/lib/upstream.db
    """
    os.mkdir("/tmp/archive")
    run(run_first)
    DROPINS.mkdir()
    (DROPINS / "upstream.conf").write_text(f"[Service]\nEnvironment=BOTWIRED_UPSTREAM_URL={UPSTREAM}\nEnvironment=BOTWIRED_UPSTREAM_LATE_WINDOW=2s\n")
    for part in (machine, tokens, sockets, hangs, ends, one_user):
        part()
    holds("each block was followed", not blocks, str(blocks))


try:
    blocks = page()
    main()
except Exception as error:
    print("FAILED ", f"{type(error).__name__}: {error}", file=result)
    log = ["journalctl", "-b", "--no-pager", "-o", "short-monotonic", "-n", "25"]
    print(subprocess.run(log, text=True, capture_output=True).stdout, file=result)
    sys.exit(1)
print(f"all {steps} steps hold", file=result)
