"""The end of a script that a signal or its time limit interrupts."""
import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


def clean_up_when_interrupted(name, time_limit):
    """Raises SystemExit at a signal, so that the script cleans up. signal.alarm(time_limit) ends it, too."""
    def interrupted(number, _frame):
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)  # cleaning up is not interrupted
        reason = f"not finished after {time_limit} s" if number == signal.SIGALRM else signal.Signals(number).name
        raise SystemExit(f"{name}: {reason}")

    for number in SIGNALS:
        signal.signal(number, interrupted)
