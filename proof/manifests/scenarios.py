"""The scenarios of proof/manifests/run, one for each run: scenarios.py NAME."""
import faulthandler
import json
import subprocess
import sys
import time

import orchestrator
from orchestrator import FOUND, TOKEN, Container, World, http, wait_for

LIMIT = 100  # seconds: a scenario that hangs says where
AUTHORIZATION = {"Authorization": "Bearer " + TOKEN}


def named(file, name):
    return next(c for c in FOUND["files"][file] if c["name"] == name)


def status(headers=None):
    return json.loads(http("GET", "http://127.0.0.1:2689/_botwired/status", headers)[1])


def pod(world, file, volume):
    """Starts a pod's containers in their order: each sidecar must have passed its startup probe first."""
    sidecar, agent = Container(world, named(file, "botwired"), volume), Container(world, named(file, "agent"))
    sidecar.start()
    wait_for("the startup probe succeeds", lambda: sidecar.probe("startup").good)
    agent.start()
    wait_for("the agent has started", lambda: "started" in agent.said())
    return sidecar, agent


def delete(world, sidecar, agent):
    """What Kubernetes does to a pod that goes: the containers first, then the sidecars, in one grace period."""
    took = agent.stop(agent.spec["grace"])
    world.check("the agent ends by itself", agent.code == 0, agent.code)
    last = agent.said().strip().splitlines()[-1]
    took += sidecar.stop(sidecar.spec["grace"] - took)
    world.check(f"botwired ends by itself within the grace period ({took:.1f} s of {sidecar.spec['grace']:.0f})", sidecar.code == 0, sidecar.code)
    return last.split()[2]  # ended after N entries


def deployment(world):
    """A pod's life: upstream down, a full disk, a daemon that is killed, and the end."""
    world.upstream_up()
    disk = world.volume("memory", size="256m")
    sidecar, agent = pod(world, "kubernetes/deployment.yaml", disk)
    ready, alive = sidecar.probe("readiness"), sidecar.probe("liveness")
    world.check("the pod becomes ready", wait_for("ready", lambda: ready.good and alive.good))
    mode = (disk / "data").stat()
    world.check("its data belongs to its user alone", (mode.st_uid, mode.st_mode & 0o777) == (orchestrator.USER, 0o700), mode)

    world.upstream_down()
    wait_for("the daemon notices the outage", lambda: status()["upstream"]["state"] == "down")
    entries = agent.said()
    world.check("upstream down: the pod stays ready and alive", ready.after_runs(4) and alive.after_runs(4))
    world.check("upstream down: the agent goes on", agent.starts == 1 and agent.process.poll() is None, entries)
    pending = status()["pending"]
    world.check("upstream down: its writes are pending", pending > 0, pending)

    with open(disk / "foreign", "wb") as foreign:
        while True:
            try:
                foreign.write(b"\0" * 65536)
                foreign.flush()
            except OSError:
                break
    wait_for("full disk: the pod is not ready", lambda: ready.good is False)
    world.check("full disk: the pod is not ready", True)
    world.check("full disk: it is alive, and nobody restarts it", alive.after_runs(7) and sidecar.starts == 1, sidecar.starts)
    (disk / "foreign").unlink(missing_ok=True)
    world.check("room again: the pod is ready again, without a restart",
                wait_for("ready again", lambda: ready.good) and sidecar.starts == 1)

    before = status()["pending"]
    sidecar.signal("KILL")
    wait_for("the killed daemon is back", lambda: sidecar.starts == 2 and sidecar.probe("startup").good)
    after = wait_for("the journal is read", lambda: (s := status()) and not s["rebuilding"] and s)["pending"]
    world.check("a killed daemon comes back with what was pending", after >= before > 0, f"{before} before, {after} after")
    agents = wait_for("the agent is back, too", lambda: agent.process.poll() is None and agent.said().count("started"))
    world.upstream_up()
    wait_for("the agent writes again", lambda: agent.process.poll() is None and ready.good)
    wait_for("the daemon sees that upstream is back", lambda: status()["upstream"]["state"] == "up")
    time.sleep(0.5)  # some more entries
    wrote = delete(world, sidecar, agent)
    last = world.upstream_value("last")
    world.check("the agent's last write is upstream, though it wrote it while the pod ended",
                last == f"start {world.upstream_value('starts')} ended after {wrote} entries", f"{last}, {wrote}, {agents}")


def statefulset(world):
    """A pod that is deleted in an outage, and comes back to its volume."""
    world.upstream_up()
    claim = world.volume("claim")
    sidecar, agent = pod(world, "kubernetes/statefulset.yaml", claim)
    world.check("the configuration is the ConfigMap's", "ledger-" in sidecar.execute(["botwired", "config"])[1])
    wait_for("the first entry is upstream", lambda: world.upstream_value("starts") == "1")
    second = Container(world, named("kubernetes/statefulset.yaml", "botwired"), claim, {"BOTWIRED_LISTEN": "127.0.0.1:2700"})
    second.begin()
    code = second.process.wait(10)
    world.check("a second pod on the same volume refuses to start", code == 1 and "another botwired uses it" in second.said(), second.said()[-300:])

    world.upstream_hangs()
    wait_for("writes are pending", lambda: status()["pending"] > 0)
    agent.stop(agent.spec["grace"])
    sidecar.restarting = False
    began = time.monotonic()
    sidecar.signal("TERM")
    wait_for("draining: not ready", lambda: sidecar.execute(["botwired", "status", "--ready"])[0] == 1, 5)
    world.check("while it drains, it is not ready", True)
    world.check("while it drains, it is alive", sidecar.execute(["botwired", "status", "--live"])[0] == 0)
    sidecar.process.wait(sidecar.spec["grace"])
    took = time.monotonic() - began
    world.check(f"upstream hangs: it ends by itself after flush.drain_timeout ({took:.1f} s)",
                sidecar.process.returncode == 0 and took < sidecar.spec["grace"] - 30, sidecar.process.returncode)
    kept = json.loads(sidecar.said().strip().splitlines()[-1])
    world.check("and says what it keeps", kept["msg"] == "stopped" and kept["pending"] > 0, kept)

    world.upstream_down()
    world.upstream_up()
    world.check("upstream lacks the agent's last write", world.upstream_value("last") is None)
    sidecar, again = pod(world, "kubernetes/statefulset.yaml", claim)
    wait_for("the next pod has sent it", lambda: (world.upstream_value("last") or "").startswith("start 1 "))
    world.check("the next pod on the volume sends it", True)
    world.check("and its agent goes on where the first has ended", "started 2 times" in again.said(), again.said())
    delete(world, sidecar, again)


def suspended(world):
    """A sandbox of agent-sandbox, suspended in an outage and resumed: its pod goes, and its volume stays."""
    world.upstream_up()
    claim = world.volume("claim")
    sidecar, agent = pod(world, "kubernetes/sandbox.yaml", claim)
    wait_for("the first entry is upstream", lambda: world.upstream_value("starts") == "1")
    world.upstream_down()
    wrote = delete(world, sidecar, agent)
    world.upstream_up()
    world.check("suspended in an outage: upstream lacks the agent's last write", world.upstream_value("last") is None)
    sidecar, agent = pod(world, "kubernetes/sandbox.yaml", claim)
    last = wait_for("resumed: the last write is upstream", lambda: world.upstream_value("last"))
    world.check("resumed: botwired sends it", last == f"start 1 ended after {wrote} entries", last)
    world.check("resumed: the agent knows its first life", "started 2 times" in agent.said(), agent.said())
    delete(world, sidecar, agent)


def starting(world):
    """A disk that is full when the pod starts: alive, not started, and no restart."""
    world.upstream_up()
    disk = world.volume("memory", size="96m")
    (disk / "foreign").write_bytes(b"\0" * (95 << 20))
    sidecar = Container(world, named("kubernetes/deployment.yaml", "botwired"), disk)
    sidecar.start()
    wait_for("it answers", lambda: sidecar.execute(["botwired", "status", "--live"])[0] == 0)
    world.check("a full disk at the start: it lives", True)
    startup = sidecar.probe("startup")
    startup.after_runs(5)
    world.check("a full disk at the start: the startup probe holds the agent back", not startup.good)
    (disk / "foreign").unlink()
    subprocess.run(["mount", "-o", "remount,size=512m", disk], check=True)
    wait_for("started", lambda: startup.good)
    world.check("room again: it starts, in the same process", sidecar.starts == 1, sidecar.starts)
    sidecar.stop(sidecar.spec["grace"])
    world.check("and ends with 0", sidecar.code == 0, sidecar.code)


def shared(world):
    """One daemon for many: its token comes from a Secret, the agents' URL from the same."""
    world.upstream_up()
    sidecar, first = pod(world, "kubernetes/shared.yaml", world.volume("claim"))
    second = Container(world, named("kubernetes/shared.yaml", "agent"), None, {"AGENT_NAMESPACE": "second"})
    second.start()
    wait_for("both agents' writes are upstream", lambda: world.upstream_value("starts") == "1" and world.upstream_value("starts", "second") == "1")
    world.check("two agents send the token in their URL, and their writes arrive", True)
    refused(world)
    world.check("the probes need no token", sidecar.probe("readiness").after_runs(2) and sidecar.probe("liveness").after_runs(2))
    second.stop(second.spec["grace"])
    delete(world, sidecar, first)


def refused(world):
    code, _ = http("GET", "http://127.0.0.1:2689/memory/diary/starts")
    world.check("without the token, it answers 401", code == 401, code)
    code, _ = http("GET", "http://127.0.0.1:2689/memory/diary/starts", {**AUTHORIZATION, "Host": "evil.example"})
    world.check("by a name that it does not know, it answers 403", code == 403, code)


def compose(world, file="compose.yaml"):
    """The compose file: up, an outage, stop, and up again on the same volume."""
    world.upstream_up()
    volume = world.volume("memory", mode=0o700, owner=(orchestrator.USER, orchestrator.USER))  # as the image has it
    for life in (1, 2):
        daemon, agent = Container(world, named(file, "botwired"), volume), Container(world, named(file, "agent"))
        world.check("the agent waits for a healthy botwired", agent.spec["after"] == ["botwired"])
        daemon.start()
        health = daemon.probe("healthcheck")
        wait_for("healthy", lambda: health.good)
        world.check("the image's health check says the same", daemon.execute(daemon.image["health"]["command"])[0] == 0)
        agent.start()
        wait_for("the agent has started", lambda: f"started {life} times" in agent.said())
        wait_for("its first write is upstream", lambda: world.upstream_value("starts") == str(life))
        if life == 1:
            world.check("the agent's first write is upstream", True)
            if file == "compose.yaml":
                refused(world)
                world.check("no container's settings contain the token", TOKEN not in json.dumps([daemon.environment(), agent.environment()]))
            world.upstream_down()
            wait_for("the outage is noticed", lambda: status(AUTHORIZATION)["upstream"]["state"] == "down")
            world.check("upstream down: it stays healthy", health.after_runs(4))
            world.upstream_up()
            wait_for("upstream is back", lambda: status(AUTHORIZATION)["upstream"]["state"] == "up")
        agent.stop(agent.spec["grace"])
        world.check("the agent ends by itself", agent.code == 0, agent.code)
        took = daemon.stop(daemon.spec["grace"])
        world.check(f"botwired ends by itself within stop_grace_period ({took:.1f} s of {daemon.spec['grace']:.0f})", daemon.code == 0, daemon.code)
        last = world.upstream_value("last")
        world.check(f"the last write of life {life} is upstream", last and last.startswith(f"start {life} "), last)


def loopback(world):
    """The compose file in which the agent shares the daemon's network."""
    compose(world, "compose.loopback.yaml")


def sandbox(world):
    """A sandbox with `botwired run`, paused with a write that is pending, cloned, and both resumed."""
    world.upstream_up()
    template = json.loads((orchestrator.ROOT / "bin" / "manifests-e2b.json").read_text())
    env = {s["args"][0]: s["args"][1] for s in template["steps"] if s["type"] == "ENV"}
    spec = {"name": "sandbox", "command": ["botwired", "run", "--", "python", "/agent/agent.py"], "args": None, "env": env, "files": {},
            "volumes": ["/home/user"], "probes": {}, "NoNewPrivileges": True, "NoCapabilities": True, "ReadOnly": True}
    home = world.volume("home", 0o755, (orchestrator.USER, orchestrator.USER))
    original = Container(world, spec, home)
    original.restarting = False
    original.begin()
    wait_for("the agent has started", lambda: "started 1 times" in original.said())
    code, said = original.execute(["botwired", "flush"])
    world.check("before a pause, flush carries everything upstream", code == 0 and world.upstream_value("starts") == "1", said)

    world.upstream_down()
    code, said = original.execute(["botwired", "set", "plans", "plan", "made before the pause"])
    world.check("and in an outage, a write is pending", code == 0, said)
    code, said = original.execute(["botwired", "flush", "--timeout", "1s"])
    world.check("which flush says by its exit code", code == 1, said)
    original.pause()
    world.upstream_up()
    url = "http://127.0.0.1:2690/memory/plans/plan"
    http("PUT", url, {"Content-Type": "application/json"}, b'{"value":"made by another host, meanwhile"}')
    subprocess.run(["cp", "-a", home, world.dir / "volumes" / "clone"], check=True)
    # One network for both here, so the clone has another port.
    clone = Container(world, spec, world.dir / "volumes" / "clone", {"BOTWIRED_LISTEN": "127.0.0.1:2700", "AGENT_NAMESPACE": "clone"})
    clone.restarting = False
    clone.begin()
    wait_for("the clone's agent has started", lambda: "started" in clone.said())
    original.resume()
    for name, one in (("the clone", clone), ("the original", original)):
        wait_for(f"{name} answers", lambda: one.execute(["botwired", "status", "--live"])[0] == 0)
        code, said = one.execute(["botwired", "flush", "--timeout", "1m"])  # a clone first waits for upstream.late_window
        world.check(f"{name} flushes", code == 0, said)
        lost = one.execute(["botwired", "history", "plan", "plans", "--json"])[1]
        states = [(r["state"], r["value"]) for r in json.loads(lost)["revisions"]]
        world.check(f"{name} keeps its old write in the history, as lost", any(state == "lost" and "made before the pause" in value for state, value in states), lost)
    world.check("the value that was written last is upstream", world.upstream_value("plan", "plans") == "made by another host, meanwhile")
    for one in (clone, original):
        one.stop(30)
        world.check("SIGTERM: the agent ends, and run passes on its exit code", one.code == 0, one.code)
    world.check("each agent's last write is upstream", world.upstream_value("last") and world.upstream_value("last", "clone"))


SCENARIOS = {f.__name__: f for f in (statefulset, suspended, sandbox, deployment, compose, shared, loopback, starting)}


def main():
    if sys.argv[1] == "--list":
        print("\n".join(SCENARIOS))
        return 0
    scenario = SCENARIOS[sys.argv[1]]
    faulthandler.dump_traceback_later(LIMIT, exit=True, file=sys.stdout)
    print(f"{sys.argv[1]}: {scenario.__doc__}", flush=True)
    world = World()
    try:
        scenario(world)
    except Exception as e:  # whatever it is, the logs say more
        world.check(f"{type(e).__name__}: {e}", False)
    finally:
        world.end()
    return 1 if world.failed else 0


if __name__ == "__main__":
    sys.exit(main())
