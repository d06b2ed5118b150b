# How .ci/run runs its steps: one after the other, and others meanwhile.  Sourced, never run.
#
#   step NAME COMMAND...    run it now; its output is seen as it comes
#   begin NAME COMMAND...   run it meanwhile; its output is seen in one piece once it has ended
#   join NAME               wait for what runs meanwhile
#   finish                  wait for all of it, and say what each step took
#
# A step that fails ends everything at once, and so does Ctrl-C: nothing that was started stays.

set -m # each step is a process group of its own, which can be ended as a whole
declare -A running=() # names of steps by process id
ended=()              # names of those whose output was not shown yet
notes=$(mktemp -d)    # of each step its output, when it began, and what it took
trap 'stop_all; rm -rf "$notes"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() {
    local name=$1 pid
    shift
    printf '\n== %s (at %d s)\n' "$name" "$SECONDS"
    start "$name" "$@"
    await "$pid"
    show_ended
}

begin() {
    local name=$1 pid
    shift
    printf '\n== %s: begins in the background (at %d s)\n' "$name" "$SECONDS"
    start "$name" "$@" &>"$notes/$name.log"
}

join() {
    local pid
    for pid in "${!running[@]}"; do
        if [ "${running[$pid]:-}" = "$1" ]; then # others may have ended while one was awaited
            await "$pid"
        fi
    done
    show_ended
}

finish() {
    local pid
    for pid in "${!running[@]}"; do
        await "$pid"
    done
    show_ended
    printf '\n== done in %d s\n%8s %8s %8s  %s\n' "$SECONDS" "began s" "took s" "CPU s" step
    sort -n "$notes"/*.took
}

# Sets pid.
start() {
    local name=$1
    shift
    timed "$name" "$@" &
    pid=$!
    running[$pid]=$name
}

timed() {
    local name=$1 began=$SECONDS
    shift
    trap - EXIT INT TERM
    (set -e && "$@")
    times >"$notes/$name.times" # its second line is of children: user and system, as in 1m2.345s
    awk -F '[ms ]+' -v began="$began" -v ended="$SECONDS" -v name="$name" 'NR == 2 {
        printf "%8d %8d %8.0f  %s\n", began, ended - began, 60 * ($1 + $3) + $2 + $4, name
    }' "$notes/$name.times" >"$notes/$name.took"
}

# Until this step has ended; others may end meanwhile.
await() {
    local pid status
    while [ -n "${running[$1]:-}" ]; do
        status=0
        wait -n -p pid "${!running[@]}" || status=$?
        local name=${running[$pid]}
        unset "running[$pid]"
        if [ "$status" -ne 0 ]; then
            show_ended
            show "$name"
            printf '\n== %s failed with %d (at %d s)\n' "$name" "$status" "$SECONDS"
            exit 1
        fi
        ended+=("$name")
    done
}

show_ended() {
    local name
    for name in "${ended[@]}"; do
        show "$name"
    done
    ended=()
}

show() {
    if [ -e "$notes/$1.log" ]; then
        printf '\n== %s, which ran in the background\n' "$1"
        cat "$notes/$1.log"
    fi
}

# As Ctrl-C would, so that tests end what they started; then without mercy.
stop_all() {
    local pid patience
    exec 2>/dev/null # who is gone already, and bash's own words on each that ends
    for pid in "${!running[@]}"; do
        kill -INT -- "-$pid" || true
    done
    for ((patience = 0; patience < 300; patience++)); do
        for pid in "${!running[@]}"; do
            kill -0 -- "-$pid" || unset "running[$pid]"
        done
        [ ${#running[@]} -gt 0 ] || return 0
        sleep 0.2
    done
    for pid in "${!running[@]}"; do
        kill -KILL -- "-$pid" || true
    done
}
