"""The programs in examples/, each of which remembers in one process what the next one recalls."""
import subprocess

from harness.processes import Failure, ended

# The first process of an example remembers the first of these, and the second process the others.
FIRST = ["the keys are under the mat", 'Ada said "ol\u00e1" \U0001f511', "the meeting is on Tuesday"]
SECOND = ["the meeting has moved to Friday", "100% of {this} is <plain> \\ text", "the dog's name is \u30dd\u30c1"]
AT_ONCE = [f"process {n} was here" for n in range(1, 5)]  # each in a process of its own, all at the same time
QUESTION = "What do you remember?"
LIMIT = 120  # seconds for one process, on a machine that is busy with others


def run(report, client, stage):
    """The first process learns facts while all is well. In the second one, upstream is down, or the daemon is
    killed in the middle. In the end, a third one recalls all of it from upstream, without a daemon."""
    answers = _talk(report, client, stage, stage.meter.url, *map(remember, FIRST), QUESTION)
    recalls(report, "the first process recalls what it was told", answers, FIRST)
    stage.listed()
    before = stage.upstream_down() if stage.case == "outage" else None
    if stage.case == "killed":
        stage.meter.kill_at_write(2)
    answers = _talk(report, client, stage, stage.meter.url, QUESTION, *map(remember, SECOND), QUESTION)
    recalls(report, "the second process recalls the first", answers[:1], FIRST)
    recalls(report, "and what it was told itself", answers, FIRST + SECOND)
    told = FIRST + SECOND
    if client.keeps_all and stage.case == "up":
        told = told + _told_at_once(report, client, stage)
    if stage.case == "killed":
        report.check("the daemon was killed in the middle, before an answer", stage.meter.kills, 1)
    if stage.case == "outage":
        stage.check_outage(before)
        stage.upstream.up()
    stage.flush()
    stage.end_daemon()
    if client.needs_daemon:
        held = b"\n".join(stage.held().values()).decode()
        report.check("upstream's database holds it all", [fact for fact in told if fact not in held], [])
    else:
        with stage.apart() as memory:
            answers = _talk(report, client, stage, memory.url, QUESTION)
        recalls(report, "a process that talks to upstream itself recalls it all", answers, told)
    stage.end_upstream()


def remember(fact):
    return f"Remember: {fact}"


def _told_at_once(report, client, stage):
    """Several processes learn a fact each. The result is their facts, in the order in which they are recalled."""
    agents = [stage.start([*client.command(), remember(fact)], stage.meter.url, stdin=subprocess.DEVNULL) for fact in AT_ONCE]
    for agent in agents:
        agent.communicate(timeout=LIMIT)
    last = _talk(report, client, stage, stage.meter.url, QUESTION)[-1]
    found = last.split("; ")[len(FIRST + SECOND):]
    report.check("of processes at the same time, none overwrites another's fact", sorted(found), AT_ONCE)
    return found


def _talk(report, client, stage, url, *messages):
    """Return the answers of a process to messages, a line for each."""
    agent = stage.start([*client.command(), *messages], url, stdin=subprocess.DEVNULL)
    try:
        answers = agent.communicate(timeout=LIMIT)[0].splitlines()
    except subprocess.TimeoutExpired:
        raise Failure(f"{client.program} is not done after {LIMIT} s") from None
    report.check(f"{client.program} ends well", ended(agent, LIMIT), 0)
    report.check("it answers each message", len(answers), len(messages))
    warned = [line for line in (stage.directory / "client.log").read_text().splitlines() if "Deprecat" in line]
    report.check("it calls nothing that its framework has deprecated", warned, [])
    return answers


def recalls(report, name, answers, facts):
    """The last answer has each fact, in the order in which they were told."""
    last = answers[-1] if answers else ""
    report.check(name, last, "I remember: " + "; ".join(facts))
