"""Functions that the launch tests run on their ranks: a new process can only import what is in a module."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from pllab.comm import (
    PeerError,
    all_gather_object,
    all_reduce,
    all_reduce_async,
    barrier,
    broadcast,
    rank,
    receive,
    record_messages,
    report,
    send,
    setup,
    teardown,
    world_size,
)


def where(number, size):
    return number, size, rank(), world_size(), torch.get_num_threads()


def exchange(number, size):
    """Every operation against torch.distributed called directly."""
    mine = torch.arange(4.0) + 10 * number
    ours, theirs = mine.clone(), mine.clone()
    all_reduce(ours)
    dist.all_reduce(theirs)
    later = mine.clone()
    all_reduce_async(later).wait()
    told = mine.clone()
    broadcast(told, source=size - 1)
    told_by_torch = mine.clone()
    dist.broadcast(told_by_torch, src=size - 1)
    objects: list = [None] * size
    dist.all_gather_object(objects, {"rank": number})
    barrier()
    return {
        "all_reduce": torch.equal(ours, theirs),
        "all_reduce_async": torch.equal(later, theirs),
        "broadcast": torch.equal(told, told_by_torch),
        "all_gather_object": all_gather_object({"rank": number}) == objects,
    }


def ring(number, size):
    """Send one's number to the right, receive from the left; even ranks send first."""
    right, left = (number + 1) % size, (number - 1) % size
    out, into = torch.tensor([float(number)]), torch.empty(1)
    steps = [lambda: send(out, right), lambda: receive(into, left)]
    with record_messages() as ledger:
        for step in steps if number % 2 == 0 else reversed(steps):
            step()
    return into.item(), [(message.name, message.peer, message.num_bytes) for message in ledger.messages]


def fail_on(number, size, failing, how):
    """One rank fails in the stated way, the others wait for it in an all_reduce."""
    if number != failing:
        all_reduce(torch.ones(2))
        return number
    time.sleep(0.3)  # the others are waiting by now
    return HOW[how](number)


def _raise(number):
    raise ValueError("no such luck")


def _hang(number):
    time.sleep(3600)


def _be_deaf(number):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


def _leave_then_raise(number):
    """The echo on the other ranks comes half a second before the cause."""
    teardown()
    time.sleep(0.5)
    raise KeyError("late")


def _give_a_lock(number):
    all_reduce(torch.ones(2))
    return threading.Lock()


HOW = {
    "raise": _raise,
    "exit": lambda number: sys.exit(3),
    "os_exit": lambda number: os._exit(7),
    "kill": lambda number: os.kill(os.getpid(), signal.SIGKILL),
    "hang": _hang,
    "leave_then_raise": _leave_then_raise,
    "deaf": _be_deaf,
    "unpicklable": _give_a_lock,
    "return": lambda number: number,
}


def say(number, size):
    for step in range(3):
        report((number, step))
    return number


def report_a_lock(number, size):
    report(threading.Lock())


def setup_again(number, size):
    setup(number, size)


def teardown_twice(number, size):
    before = os.environ.get("GLOO_SOCKET_IFNAME")
    teardown()
    teardown()
    return before, os.environ.get("GLOO_SOCKET_IFNAME"), dist.is_initialized()


def listening_addresses(number, size):
    """The addresses this process listens on or is connected from, once a message went through."""
    all_reduce(torch.ones(1))
    addresses = sorted({c.laddr.ip for c in psutil.Process().net_connections("inet") if c.laddr})
    barrier()
    return addresses


def peer_error(number, size):
    """What a rank reads when its peer leaves without making the same call."""
    if number == 0:
        return None
    try:
        all_reduce(torch.ones(1))
    except PeerError as error:
        return str(error)
    return "nothing"


def wait_for_file(number, size, path):
    """Tell the own pid through a file and wait to be ended."""
    Path(path, f"pid-{number}").write_text(str(os.getpid()))
    time.sleep(3600)


def give_back(number, size, value):
    return value + number
