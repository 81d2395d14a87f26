"""Containers as an orchestrator runs them: by crun, with probes, restarts and an order of stopping."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOUND = json.loads((ROOT / "bin" / "manifests.json").read_text()) if (ROOT / "bin" / "manifests.json").exists() else {}
VENV = ROOT / "bin" / "manifests-venv"
USER = 65532  # the owner of volumes and secrets
SPEED = 10  # the probes' periods and the pauses before a restart are this many times shorter than the manifests say
WITHIN = 60  # seconds until whatever is waited for is a failure
TOKEN = "0123456789abcdef0123456789abcdef"


class Failure(Exception):
    """A scenario cannot go on."""


def wait_for(what, condition, within=WITHIN):
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Failure(f"not within {within} s: {what}")
        time.sleep(0.02)
    return value


class World:
    """A machine for one scenario: directories, upstream, and containers. It must be made in namespaces of its own."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="botwired-manifests-"))
        self.dir.chmod(0o755)
        self.failed = 0
        self.containers = []
        self.upstream = None
        self.selfhost_log = open(self.dir / "selfhost.log", "ab")
        self.crun = ["crun", "--cgroup-manager=disabled", "--root", str(self.dir / "crun")]
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["umount", "-R", "/sys/fs/cgroup"], capture_output=True)
        # crun refuses a mixture of cgroups of both versions, and needs none.
        subprocess.run("mount -t cgroup2 none /sys/fs/cgroup || mount -t tmpfs none /sys/fs/cgroup", shell=True, check=True, capture_output=True)
        loopback_up()

    def check(self, what, holds, detail=""):
        self.failed += not holds
        print(f"    {'ok' if holds else 'not ok'}  {what}" + ("" if holds else f": {detail}"), flush=True)

    def upstream_up(self):
        """BotWire's memory service, at the same address and with the same database each time."""
        self.upstream = subprocess.Popen(
            [ROOT / "bin" / "botwired", "selfhost", "--db", self.dir / "upstream.db", "--listen", "127.0.0.1:2690"],
            stderr=self.selfhost_log, env={"HOME": str(self.dir)})
        wait_for("upstream answers", lambda: http("GET", "http://127.0.0.1:2690/health")[0] == 200)

    def upstream_down(self):
        self.upstream.kill()
        self.upstream.wait()

    def upstream_hangs(self):
        """Upstream takes connections and does not answer."""
        self.upstream.send_signal(signal.SIGSTOP)

    def upstream_value(self, key, namespace="diary"):
        status, body = http("GET", f"http://127.0.0.1:2690/memory/{namespace}/{key}")
        return json.loads(body)["value"] if status == 200 else None

    def volume(self, name, mode=0o2777, owner=(0, USER), size=""):
        """A directory as Kubernetes makes it for fsGroup 65532; with a size, on a disk of its own."""
        path = self.dir / "volumes" / name
        path.mkdir(parents=True)
        if size:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
        os.chown(path, *owner)
        path.chmod(mode)
        return path

    def end(self):
        for c in self.containers:
            c.destroy()
        if self.upstream:
            self.upstream_down()
        if self.failed:
            for log in sorted(self.dir.glob("*.log")):
                print(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:]))
        for path in (self.dir / "volumes").glob("*"):
            subprocess.run(["umount", "-R", path], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def loopback_up():
    """Brings up the only interface of a new network."""
    import fcntl, socket, struct
    with socket.socket() as s:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(s, 0x8913, request))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))


def http(method, url, headers=None, body=None):
    """(status, text); the status is 0 if nobody answers."""
    import urllib.error, urllib.request
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method, headers=headers or {}, data=body), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except (OSError, urllib.error.URLError):
        return 0, ""


def namespace_of(process):
    try:
        return os.readlink(process / "ns" / "pid")
    except OSError:  # it has ended
        return None


class Container:
    """One container of a manifest. `volume` is mounted where the manifest mounts its writable one."""

    count = 0

    def __init__(self, world, spec, volume=None, extra=None):
        self.world, self.spec, self.name = world, spec, spec["name"]
        self.image = FOUND["images"]["Dockerfile" if self.name == "botwired" else "agent/Dockerfile"]
        self.volume, self.extra = volume, extra or {}
        user, _, group = (spec.get("user") or self.image["user"]).partition(":")
        self.uid, self.gid = int(user), int(group or 0)
        self.probes = [Probe(self, kind, p) for kind, p in spec["probes"].items()]
        self.starts, self.restarting, self.process, self.code = 0, True, None, None
        world.containers.append(self)
        self.log = world.dir / f"{self.name}-{len(world.containers)}.log"
        self.probing = []

    # --- what the runtime is told

    def environment(self):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", **self.image["env"], **self.spec["env"]}
        if self.name != "botwired":
            env.update(PATH="/venv/bin:/opt:" + env["PATH"], AGENT_PAUSE="0.1")
        if self.name != "agent":
            env["BOTWIRED_UPSTREAM_URL"] = "http://127.0.0.1:2690"
        env.update(self.extra)
        return {k: v.replace("<secret botwired>", TOKEN) for k, v in env.items()}

    def bundle(self):
        """The directory from which crun starts the container."""
        Container.count += 1
        self.id = f"{self.name}-{os.getpid()}-{Container.count}"
        bundle = self.world.dir / self.id
        root = bundle / "rootfs"
        for name in ("proc", "dev", "tmp", "etc", "run/secrets", "var/lib/botwired", "agent", "venv", "usr", "etc/botwired"):
            (root / name).mkdir(parents=True)
        (root / "etc/passwd").write_text(f"root:x:0:0::/root:/\nnonroot:x:{USER}:{USER}::/:/\n")
        # In place of the orchestrator's name server.
        (root / "etc/hosts").write_text("127.0.0.1 localhost botwired\n")
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}]

        def bind(source, destination, *options):
            mounts.append({"destination": destination, "type": "bind", "source": str(source), "options": ["bind", *options]})

        if self.name != "botwired":  # python:slim is a Debian; this machine's is at hand
            for name in ("bin", "lib", "lib64", "sbin"):
                (root / name).symlink_to("usr/" + name)
            bind("/usr", "/usr", "ro")
            bind(VENV, "/venv", "ro")
            bind(ROOT / "deploy" / "agent", "/agent", "ro")
        if self.name != "agent":
            place = root / ("usr/local/bin" if self.name == "botwired" else "opt")
            place.mkdir(parents=True)
            shutil.copy(ROOT / "bin" / "botwired", place)
        for volume in self.spec["volumes"] or []:
            (root / volume.lstrip("/")).mkdir(parents=True, exist_ok=True)
            bind(self.volume, volume, "rw")
        for path, content in self.spec["files"].items():
            source = bundle / path.strip("/").replace("/", "_")
            source.write_text((TOKEN + "\n") if content["secret"] else content["content"])
            os.chown(source, 0, USER if content["mode"] else 0)
            source.chmod(content["mode"] or 0o444)
            inside = root / path.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
            bind(source, path, "ro")
        nothing = {k: [] for k in ("bounding", "effective", "inheritable", "permitted", "ambient")}
        entrypoint = self.spec["command"] or self.image["entrypoint"] or []
        args = self.spec["args"] or ([] if self.spec["command"] else self.image["command"])
        config = {
            "ociVersion": "1.0.0",
            "process": {
                "user": {"uid": self.uid, "gid": self.gid}, "args": entrypoint + args, "cwd": "/",
                "env": [f"{k}={v}" for k, v in self.environment().items()],
                "noNewPrivileges": self.spec["NoNewPrivileges"], "capabilities": nothing if self.spec["NoCapabilities"] else None,
            },
            "root": {"path": "rootfs", "readonly": self.spec["ReadOnly"]},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": t} for t in ("pid", "mount", "ipc", "uts")]},
        }
        (bundle / "config.json").write_text(json.dumps(config))
        return bundle

    # --- its life

    def start(self):
        """Starts it, and has it started again whenever it ends, until it is stopped."""
        self.begin()
        threading.Thread(target=self.attend, daemon=True).start()
        self.probing = [threading.Thread(target=probe.run, daemon=True) for probe in self.probes]
        for thread in self.probing:
            thread.start()

    def begin(self):
        self.starts += 1
        bundle = self.bundle()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.world.crun, "run", "--pid-file", str(bundle / "pid"), "-b", str(bundle), self.id],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.pid_file = bundle / "pid"

    def pid(self):
        """The number of its first process, outside of the container."""
        return wait_for(f"{self.name} starts", lambda: self.pid_file.exists() and int(self.pid_file.read_text() or 0))

    def attend(self):
        while True:
            code = self.process.wait()
            if not self.restarting:
                self.code = code
                return
            for probe in self.probes:
                probe.reset()
            time.sleep(10 / SPEED)
            self.begin()

    def execute(self, command, timeout=30):
        """The exit code of a command in the container, or None if it took too long."""
        args = [*self.world.crun, "exec", "--user", f"{self.uid}:{self.gid}", self.id, *command]
        try:
            done = subprocess.run(args, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout + done.stderr

    def signal(self, name):
        os.kill(self.pid(), getattr(signal, "SIG" + name))

    def processes(self):
        """The ids of all its processes."""
        inside = os.readlink(f"/proc/{self.pid()}/ns/pid")
        return [int(p.name) for p in Path("/proc").glob("[0-9]*") if namespace_of(p) == inside]

    def pause(self):
        """All of it stands still, as in a sandbox that is paused."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def stop(self, within):
        """SIGTERM, and SIGKILL when the time is over; returns the seconds that it took."""
        began = time.monotonic()
        self.restarting = False
        self.signal("TERM")
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.signal("KILL")
            self.process.wait()
        self.code = self.process.returncode
        return time.monotonic() - began

    def destroy(self):
        self.restarting = False
        if self.process and self.process.poll() is None:
            self.signal("KILL")
            self.process.wait()
        for thread in self.probing:  # crun would make its directory again
            thread.join()

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def probe(self, kind):
        return next(p for p in self.probes if p.kind == kind)


class Probe:
    """A probe and what the orchestrator concludes from it: `good` is None until it knows."""

    def __init__(self, container, kind, spec):
        self.container, self.kind, self.spec = container, kind, spec
        self.reset()

    def reset(self):
        self.good, self.failures, self.runs, self.began = None, 0, 0, time.monotonic()

    def once(self):
        code, _ = self.container.execute(self.spec["command"], self.spec["timeout"])
        return code == 0

    def held_back(self):
        """Kubernetes runs the other probes once the startup probe has succeeded."""
        startup = [p for p in self.container.probes if p.kind == "startup"]
        return self.kind != "startup" and startup and not startup[0].good

    def run(self):
        while self.container.restarting:
            time.sleep(self.spec["period"] / SPEED)
            if self.held_back() or (self.kind == "startup" and self.good):
                continue
            good = self.once()
            self.runs += 1
            self.failures = 0 if good else self.failures + 1
            if good:
                self.good = True
            elif self.failures >= self.spec["failures"]:
                self.good = False
                if self.kind in ("startup", "liveness") and self.container.restarting:
                    self.container.signal("KILL")

    def after_runs(self, more):
        """Waits for some more runs, and returns the conclusion."""
        runs = self.runs + more
        wait_for(f"{more} more runs of the {self.kind} probe", lambda: self.runs >= runs)
        return self.good
