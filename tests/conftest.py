"""What holds for every test."""

import signal


def pytest_configure() -> None:
    """Let tests interrupt the programs they start, also when the tests run as a shell's background job."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
