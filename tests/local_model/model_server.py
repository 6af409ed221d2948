"""llama.cpp's OpenAI-compatible server, in a program of its own: `python model_server.py WEIGHTS`. It prints its address."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import xllamacpp


def main(weights: str) -> None:
    """Serve the model as "smollm2" on a free port of the loopback interface until a signal ends the process."""
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 1
    # Threads that wait for one another spin: on a busy machine two are a hundred times slower than one.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.chat_template = Path(__file__).with_name("chat_template.jinja").read_text()
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
