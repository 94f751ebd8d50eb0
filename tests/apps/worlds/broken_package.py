"""What a package does at its worst when it is imported, chosen by the name it is imported by."""

import os
import sys
import time

match __name__.rpartition("_")[2]:
    case "hangs":
        time.sleep(600)
    case "ends":
        os._exit(7)
    case "leaves":
        sys.exit("enough")
    case "prints":
        print("hello", flush=True)  # noqa: T201
    case "floods":
        while True:
            print("x" * 100_000)  # noqa: T201
    case "raises":
        raise KeyError("what I want")
    case "forks":
        if os.fork() == 0:
            time.sleep(600)
