# An agent for tests: `sh agent.sh BEHAVIOUR FOLDER`. It notes in the folder what it was started with.
folder=$2
cat "/proc/$$/environ" > "$folder/environment"
if [ -n "$CIRCADIA_PROMPT_FILE" ]; then
    cat "$CIRCADIA_PROMPT_FILE" > "$folder/prompt"
else
    cat > "$folder/prompt"
fi
echo started >> "$folder/starts"
case $1 in
succeed)
    echo "all is well"
    exit 0
    ;;
fail)
    echo "went wrong with $CIRCADIA_TOKEN, so there" >&2
    exit 3
    ;;
flood)
    head -c 30000000 /dev/zero | tr '\0' x
    echo "the end of the flood"
    exit 0
    ;;
polite)
    trap 'echo "stopped politely" > "$folder/farewell"; exit 0' TERM
    touch "$folder/waiting"
    while :; do sleep 0.05; done
    ;;
wait)
    touch "$folder/waiting"
    exec sleep 1000
    ;;
strays)
    setsid sleep 1000 < /dev/null > /dev/null 2>&1 &
    sleep 1000 &
    exit 0
    ;;
stubborn)
    trap '' TERM
    sleep 1000 &
    setsid sh -c 'trap "" TERM; sleep 1000 & sleep 1000' < /dev/null > /dev/null 2>&1 &
    (setsid sh -c 'sleep 1000 & exec sleep 1000' &) &
    touch "$folder/waiting"
    while :; do sleep 1000; done
    ;;
esac
