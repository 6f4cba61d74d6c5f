#!/usr/bin/env python3
"""Compiles CUDA sources with NVRTC, which needs no GPU: nvrtc.py DIRECTORY ARCHITECTURE...

Prints the log of each failure, and ends with status 1 if there was one. Runs two processes. What has
compiled once is remembered in DIRECTORY.done and not tried again.
"""

import ctypes
import glob
import hashlib
import multiprocessing
import os
import sys
import time


OPTIONS = [b"--std=c++17", b"--fmad=true"]


def library():
    """NVRTC of the environment that this runs in."""
    pattern = os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia", "*", "lib")
    for folder in glob.glob(pattern):
        # NVRTC opens its builtins by name, which only works for a library that is already there.
        for builtins in glob.glob(os.path.join(folder, "libnvrtc-builtins.so.*")):
            ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
        for path in glob.glob(os.path.join(folder, "libnvrtc.so.*")):
            return ctypes.CDLL(path)
    sys.exit("nvrtc is not installed: pip install 'nvidia-cuda-nvrtc==13.0.*'")


def compile_one(job):
    """The log of one source for one architecture, or nothing when all went well."""
    path, architecture, done = job
    nvrtc = library()
    with open(path, "rb") as file:
        text = file.read()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    made_from = f"{architecture} {major.value}.{minor.value} {OPTIONS}".encode() + text
    stamp = os.path.join(done, hashlib.sha256(made_from).hexdigest())
    if os.path.exists(stamp):
        return path, architecture, 0, ""
    program = ctypes.c_void_p()
    name = os.path.basename(path).encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), *OPTIONS]
    array = (ctypes.c_char_p * len(options))(*options)
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status == 0:
        with open(stamp, "w", encoding="utf-8"):
            pass
    # Names of kernels are in the source, so a line of the log leads to the key.
    return path, architecture, status, log.value.decode(errors="replace")


def main():
    directory, architectures = sys.argv[1], sys.argv[2:]
    done = directory.rstrip("/") + ".done"
    os.makedirs(done, exist_ok=True)
    paths = sorted(glob.glob(f"{directory}/*.cu"))
    jobs = [(path, architecture, done) for path in paths for architecture in architectures]
    if not jobs:
        sys.exit(f"{directory} has no sources")
    start, failures = time.monotonic(), 0
    with multiprocessing.Pool(2) as pool:
        for path, architecture, status, log in pool.imap_unordered(compile_one, jobs):
            if status != 0 or log.strip("\0 \n"):
                print(f"{path} for {architecture}: status {status}\n{log}")
            failures += status != 0
    print(f"nvrtc: {len(jobs)} programs, {failures} failures, {time.monotonic() - start:.0f} s")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
