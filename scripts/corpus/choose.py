"""Which documents go where: the order by hash, held-out documents, caps, and who takes over a
missing source's share.

A document's h is the first 8 bytes of SHA-256 of its text.  It is held out when h / 2^64 < 0.02, so
that this needs no list, and a change of one document moves no other.
"""

import hashlib

HELD_OUT_BELOW = int(0.02 * 2**64)
EVALUATION_SHARE = 0.02
EVALUATION_CHARS = 16000


def document_hash(text):
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")


def held_out_count(hashes):
    """How many of the ascending `hashes` are held out: those below 2 %, at least the first."""
    below = sum(1 for value in hashes if value < HELD_OUT_BELOW)
    return max(below, 1) if hashes else 0


def fill(sizes, cap):
    """How many of the first `sizes` it takes to reach `cap`; the last may overshoot."""
    total = 0
    for count, size in enumerate(sizes):
        if total >= cap:
            return count
        total += size
    return len(sizes)


def split_and_cap(documents, cap):
    """(training, evaluation) of one source.  `documents` are ascending by hash, with .hash, .bytes,
    .evaluation_bytes.

    Evaluation takes held-out documents until 2 % of the cap; training takes the others until both
    fill the cap.
    """
    held_out = held_out_count([document.hash for document in documents])
    candidates = documents[:held_out]
    evaluation = candidates[
        : fill([item.evaluation_bytes for item in candidates], EVALUATION_SHARE * cap)
    ]
    rest = documents[held_out:]
    used = sum(item.bytes for item in evaluation)
    return rest[: fill([item.bytes for item in rest], cap - used)], evaluation


def share_out(caps, available, missing):
    """Caps after the sources of a domain that are there took over the shares of the missing ones.

    caps, available: name -> bytes; missing: name -> bytes it should have had.  Each grows in
    proportion to its cap, up to what it holds; what one cannot take goes to the others.
    """
    raised = {name: float(cap) for name, cap in caps.items() if name not in missing}
    left = float(sum(missing.values()))
    while left >= 1:
        growing = [name for name in raised if available[name] > raised[name]]
        if not growing:
            break
        weight = sum(caps[name] for name in growing)
        given = 0.0
        for name in growing:
            extra = min(left * caps[name] / weight, available[name] - raised[name])
            raised[name] += extra
            given += extra
        left -= given
    return {name: int(cap) for name, cap in raised.items()}
