#!/usr/bin/env bash
# A wrapper of the compiler: the Metal device and its tests get counters for coverage, and nothing else does.
case " $* " in
    *" --crate-name millstream_metal "* | *" --crate-name unit "* | *" --crate-name device "* | *" --crate-name conformance "*)
        exec "$@" -Cinstrument-coverage
        ;;
    *) exec "$@" ;;
esac
