"""A stand-in for a model that writes code. It keeps what begins with "Remember: ", and else prints what was kept."""


def code_for(message: str) -> str:
    if message.startswith("Remember: "):
        fact = message.removeprefix("Remember: ")
        return f'facts = [*globals().get("facts", []), {fact!r}]\nprint("I will remember that.")'
    return 'print("I remember: " + "; ".join(globals().get("facts", [])))'
