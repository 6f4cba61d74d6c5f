#!/usr/bin/env bash
# Finds words that this project no longer uses, and says what to use instead: names of its own for things that
# the field has a name for, and British spelling. Prints file:line for each finding, and exits 1 if there is one.
#
#   scripts/words.sh            all tracked files
#   scripts/words.sh FILE…      these files
set -euo pipefail
cd "$(dirname "$0")/.."

# Where the words may stand: this list, history, and texts and data of others.
everywhere=(':!scripts/words.sh' ':!CHANGELOG.md' ':!LICENSE*' ':!Cargo.lock' ':!*.json' ':!*/fixtures/*' ':!typos.toml')
found=0
files=("$@")

# check KIND 'PATTERN' 'what to use' [pathspec…]
#   word: anywhere in a file.   name: in code, not in comments.   defined: the name of an item or variable.
check() {
    local kind=$1 pattern=$2 instead=$3 lines
    shift 3
    case $kind in
        word) pattern="\\b(?:$pattern)\\b" ;;
        # No comment sign before it on its line.
        name) pattern="^(?:(?!//|^\\s*#).)*\\b(?:$pattern)\\b" ;;
        defined) pattern="\\b(?:struct|enum|trait|type|fn|const|static|mod|let|mut)\\s+(?:$pattern)\\b" ;;
    esac
    local paths=("${files[@]}")
    [ "$kind" = word ] || [ ${#paths[@]} -gt 0 ] || paths=('*.rs' '*.kernel' '*.cu' '*.h' '*.c' '*.cpp' '*.patch')
    lines=$(git grep -nPo "$pattern" -- "${paths[@]}" "$@" "${everywhere[@]}" || true)
    [ -n "$lines" ] || return 0
    found=1
    sed -E "s|^([^:]+:[0-9]+:)\\s*(.*)\$|\\1 \\2  →  $instead|" <<<"$lines"
}

# Scheduling and waiting.
check word 'courtesy|courteous|[Mm]anners' 'credits, refill, spend'
check word '[Dd]oorbells?|rung' 'idle workers, notify'
check name '[Bb]eds?' 'parker'
check defined 'Team|Help|recruit' 'parallel-for, task'
check word '[Ll]oans?|[Ll]enders?|lent|lends|lending' 'lease, or checkout from a pool'
check word 'Lookers?|NAP' 'spinner, park'
check defined 'look|looks|looked' 'poll, check, or what it does'
check word 'doomed' 'failed'
check word '[Vv]erdicts?|judge[sd]?' 'outcome, classify'
check word 'told(?! apart)' 'reported, or: gets the error'
# Memory.
check word '[Dd]epartures?' 'pending frees'
check word '[Ll]adder|climb(?:s|ed|ing)?' 'reclaim steps'
check word '[Tt]roubles' 'fault log'
check word 'Holders' 'RefCount'
# The profiler, and lists of Commands.
check name '[Vv]isits?' 'what it does' ':!crates/nn' ':!tests/conformance'
check word 'Preparer|sights?' 'batch lowering, occurrence'
check word '[Pp]atience' 'timeout, or capture threshold'
# Kernels.
check word 'matmul_depth|conv_depth|lower_depth' 'split_k'
check name 'turned' 'transposed, reversed' ':!bench/gpu'
check name 'depth' 'k' ':!bench' ':!crates/metal' ':!crates/nn/fuzz' ':!scripts' ':!crates/nn/src/layers/check.rs'
check defined 'Machine|Job' 'Isa, a SIMD function'
check name 'falling|past_cache|byte_product' 'exp_nonpositive, streaming stores, int8 gemm'
check defined 'Finish|Rest|Parts' 'epilogue'
check defined 'Way|Choice|Notes' 'params, load report'
check word 'Use::Own' 'AttentionKind::SelfAttention'
check name 'MOST_\w+|most_\w+' 'MAX_, max_' ':!bench'
# One meaning each.
check defined 'Plan' 'Plan is a list of Commands over slots' ':!crates/core/src/plan' ':!crates/nn/src/plan.rs'
check word '(?:struct|enum|type) Recorder' 'Recorder is the locked part of a stream' ':!crates/core/src/stream'
check word '(?:struct|enum|type) Block' 'Block is device memory with a home stream' ':!crates/core/src/memory' ':!crates/cuda/tests' ':!crates/metal/driver'
check word '(?:struct|enum|type) Places' 'say of what'

# American spelling.
check word '\w*[A-Za-z]{2}(?:alis|eralis|imis|oris|ronis|ognis|antis|ilis|atis|inis|aris)(?:e|es|ed|er|ers|ing|ation|ations)(?<!promised)' '-ize, -ization'
check word '\w*(?:[Bb]ehavi|[Cc]ol|[Nn]eighb|[Ff]av|[Hh]on|[Ll]ab|[Hh]arb|[Rr]um)our\w*' '-or'
check word '[Cc]entre[sd]?|[Ff]ibres?|[Mm]etres?|[Ll]itres?|[Cc]alibre' '-er'
check word '[Aa]naly[s]e[sd]?|[Pp]aralyse\w*|[Cc]atalogue\w*|[Dd]ialogue' 'analyze, catalog, dialog'
check word '\w*(?:[Cc]ancell|[Ll]abell|[Mm]odell|[Ss]ignall|[Tt]ravell|[Ll]evell)(?:ed|ing|er|ers)' 'one l'
check word '[Gg]rey|[Ll]icence|[Dd]efence|[Ww]hilst|[Aa]mongst|[Aa]rtefacts?|[Jj]udgement|[Ss]cepti\w+|[Pp]rogramme' 'American spelling'
[ "$found" = 0 ] || echo "Words to replace: see the glossary in CONTRIBUTING.md." >&2
exit "$found"
