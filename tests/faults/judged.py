"""A program, run by test_model_files.py in a process of its own: what the judge of the fuzzer says of some loads.

The tests' run-time check of shapes makes and runs code of its own, which the judge would take for the file's.
"""

import json
import sys
import threading
from pathlib import Path

from benchmarks.reliability import fuzz

from sodgp import DeepGPRegressor

honest, guarded = DeepGPRegressor.load, fuzz.guarded


def with_code(path):
    exec("1")  # what a pickle could do
    return honest(path)


LOADS = {
    "as it is": honest,
    "runs code": with_code,
    "fails": lambda path: [][0],
    "hangs": lambda path: threading.Event().wait(),
}


def main(folder):
    bases = [base for base in fuzz.all_bases() if base.kind is DeepGPRegressor][:2]
    path = Path(folder) / "m.sodgp"
    path.write_bytes(bases[0].content)
    fuzz.Watch.start()
    found = {"another file": fuzz.judge(bases[1], "bit flips", path)[0]}
    for name, load in LOADS.items():
        DeepGPRegressor.load = staticmethod(load)
        fuzz.guarded = lambda name=name: guarded(0.5 if name == "hangs" else fuzz.SECONDS)
        found[name] = fuzz.judge(bases[0], "bit flips", path)[0]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
