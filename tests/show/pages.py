"""A page of the studio, unpacked as its script does it."""

import base64
import itertools
import json
import re
import zlib


def unpacked(page):
    """The traits, the runs by key and the bytes of each run in a page, as its script unpacks them."""
    packed = zlib.decompress(base64.b64decode(re.search(r'id="state">(.*?)</script>', page, re.S)[1]))
    length = int.from_bytes(packed[:4], "little")
    state = json.loads(packed[4 : 4 + length])
    ends = list(itertools.accumulate(state["sizes"], initial=4 + length))
    blocks = [packed[start:end] for start, end in itertools.pairwise(ends)]
    return state["values"], state["runs"], dict(zip(state["runs"], blocks, strict=True))
