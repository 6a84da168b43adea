# SPDX-License-Identifier: Apache-2.0
# Completes horovodrun in fish. The program tells its flags: horovodrun --help completion

# The command begins at the first word that is neither a flag nor the value of one.
function __horovodrun_reads_flags
    set -l words (commandline -opc)[2..]
    test "$words[1]" = doctor; and set -e words[1]
    while string match -qr -- '^-.' "$words[1]"; and test "$words[1]" != --
        contains -- $words[1] $__horovodrun_flags_with_value; and set -e words[1]
        set -e words[1]
    end
    test (count $words) -eq 0
end

set -g __horovodrun_flags_with_value
for line in (command horovodrun --help completion 2>/dev/null)
    set -l fields (string split \t -- $line)
    set -l name (string trim -l -c - -- $fields[1])
    set -l form -o
    string match -q -- '--*' $fields[1]; and set form -l
    test (string length -- $name) -eq 1; and set form -s
    set -l argument
    if test -n "$fields[3]"
        set -a __horovodrun_flags_with_value $fields[1]
        set -l choices (string replace -ra '[^a-z|]' '' -- $fields[3] | string replace -a '|' ' ')
        switch $fields[3]
            case FILE
                set argument -r -F
            case DIR
                set argument -x -a '(__fish_complete_directories)'
            case '*'
                set argument -x -a "$choices"
        end
    end
    complete -c horovodrun -n __horovodrun_reads_flags $form $name $argument -d "$fields[2]"
end
complete -c horovodrun -n __fish_is_first_arg -a doctor -d 'examine hosts'
complete -c horovodrun -n __fish_is_first_arg -a timeline -d 'merge traces'
complete -c horovodrun -n 'not __horovodrun_reads_flags' -x -a '(__fish_complete_subcommand)'
