# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Completes horovodrun in bash. The program tells its flags: horovodrun --help completion
_horovodrun() {
    local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} index=1 name value
    local -A values=()
    while IFS=$'\t' read -r name _ value; do
        values[$name]=$value
    done < <("${COMP_WORDS[0]}" --help completion 2>/dev/null)
    COMPREPLY=()

    # The command begins at the first word that is neither a flag nor the value of one. Bash makes
    # words of their own of = and : and so of "--np", "=", "4".
    [[ ${COMP_WORDS[1]} == doctor ]] && ((COMP_CWORD > 1)) && index=2
    while ((index < COMP_CWORD)) && [[ ${COMP_WORDS[index]} == -?* && ${COMP_WORDS[index]} != -- ]]; do
        [[ -n ${values[${COMP_WORDS[index]}]-} && ${COMP_WORDS[index + 1]} != = ]] && ((++index))
        ((++index))
        while [[ ${COMP_WORDS[index]-} == [:=] ]]; do ((index += 2)); done
    done
    if ((index < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$index"
        else
            compopt -o default
        fi
        return
    fi

    [[ $flag == = ]] && flag=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $word == = ]] && word=
    value=
    ((index > COMP_CWORD)) && value=${values[$flag]-}
    case $value in
    FILE) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    DIR) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    ?*) # "share|none" is a choice; letters in upper case name a kind of value
        value=${value//[^a-z|]/}
        mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word")
        ;;
    '')
        if [[ $word == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "${!values[*]}" -- "$word")
        else
            mapfile -t COMPREPLY < <(
                ((COMP_CWORD == 1)) && compgen -W 'doctor timeline' -- "$word"
                compgen -c -- "$word"
            )
        fi
        ;;
    esac
}
complete -F _horovodrun horovodrun
