# bash completion for headwater(8)

_headwater() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    case $previous in
        -s) mapfile -t COMPREPLY < <(compgen -W "stop quit reopen reload" -- "$current") ;;
        -p) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        -c | -e) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        -g) ;;
        *) mapfile -t COMPREPLY < <(compgen -W "-? -h -v -V -t -T -q -s -p -e -c -g" -- "$current") ;;
    esac
}
complete -o filenames -F _headwater headwater
