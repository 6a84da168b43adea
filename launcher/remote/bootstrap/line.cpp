// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/line.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <cctype>

namespace hvd::launch {
namespace {

// The original csh refuses words of more than 1,024 characters.
constexpr std::size_t kWordLimit = 900;

/// The script, for any POSIX sh; to_command says which characters it may not contain. Its names
/// begin with
/// `_`, since to assign to an exported variable would change the agent's environment.
///
///   _i build id   _k folder's name   _n bytes   _m machine   _z shared places   _u umask as given
///   _d a folder   _f the agent in it   _r why it is of no use   _w all reasons together
constexpr std::string_view kScript =
    R"sh(_i=$1 _k=$2 _n=$3 _m=$4 _w= _u=; shift 4; _z=$*; set -f; )sh"
    R"sh(_a() { printf "\n%s %s\n" HVDBOOT1 "$1"; }; )sh"
    R"sh(_a shell; )sh"
    R"sh(_x() { _a "fail $(echo $1)"; exit 97; }; )sh"

    // Whether a folder is ours alone. ls -d shows a symbolic link as such.
    R"sh(_o() { [ -O "$1" ] || { _r="$1 belongs to somebody else"; return 1; }; )sh"
    R"sh(case $(LC_ALL=C ls -ldn "$1") in drwx------*) ;; )sh"
    R"sh(*) _r="$1 is not a plain folder of mode 0700"; return 1;; esac; }; )sh"

    // Whether _d has the agent and it runs; if so, become it. That is all that happens on most
    // hosts, and each process costs a millisecond: the agent, which is ours, looks itself whether
    // its folders are for us alone.
    R"sh(_e() { if [ -h "$1" ]; then return 1; fi; [ -d "$1" ] && [ -O "$1" ]; }; )sh"
    R"sh(_c() { _f=$_d/$_k/hvd-agent; [ -f "$_f" ] && [ -O "$_f" ] && _e "$_d" && _e "$_d/$_k" && )sh"
    R"sh([ "$("$_f" --version "$_d" "$_d/$_k" </dev/null 2>/dev/null)" = "$_i" ]; }; )sh"
    R"sh(_g() { [ -z "$_u" ] || umask "$_u"; exec "$_f"; }; )sh"
    R"sh(_j() { if _c; then _g; fi; }; )sh"

    // Receives the agent into _t, proves it, publishes it. All its bytes are taken, also where the
    // disk is full, since another folder may come. By a link, not a rename: over NFS, a file that
    // another host executes must not be replaced.
    R"sh(_y() { _r=$({ echo : | LC_ALL=C cat >"$_t"; } 2>&1) || { _r="write: ${_r##*: }"; return 1; }; )sh"
    R"sh(chmod 700 "$_t"; _r=$("$_t" 2>&1) || { _r="execute: ${_r##*: }"; return 1; }; _a send; )sh"
    R"sh(_r=$($_h | { LC_ALL=C cat 2>&1 >"$_t"; _q=$?; cat >/dev/null; exit $_q; }) || )sh"
    R"sh({ _r="write: ${_r##*: }"; return 1; }; _q=$(($(wc -c <"$_t"))); )sh"
    R"sh([ "$_q" = "$_n" ] || { _r="$_q of $_n bytes came"; return 1; }; )sh"
    R"sh(_r=$("$_t" --version 2>&1 </dev/null); [ "$_r" = "$_i" ] || )sh"
    R"sh({ _r="the agent does not run: $_r"; return 1; }; )sh"
    R"sh(ln "$_t" "$_f" 2>/dev/null || _c || mv -f "$_t" "$_f"; rm -f "$_t"; )sh"
    R"sh(_r="the agent vanished"; _c; }; )sh"

    // Tries _d: made, ours, and what _y proves.
    R"sh(_p() { umask 077; _r=$(LC_ALL=C mkdir -p "$_d/$_k" 2>&1) || )sh"
    R"sh({ _r="mkdir: ${_r##*: }"; return 1; }; _o "$_d" && _o "$_d/$_k" || return 1; )sh"
    R"sh(_f=$_d/$_k/hvd-agent; _t=$(LC_ALL=C mktemp "$_d/$_k/new.XXXXXX" 2>&1) || )sh"
    R"sh({ _r="create a file: ${_t##*: }"; return 1; }; _y && return 0; rm -f "$_t"; return 1; }; )sh"
    R"sh(_b() { if _p; then _g; fi; _w="$_w$_d: $_r; "; }; )sh"

    // Does $1 for each folder: the user's own, then those in places where others cannot exchange
    // it.
    R"sh(_v() { _w=; _d=$XDG_CACHE_HOME/horovodrun; case $_d in /horovodrun) ;; /*) $1;; esac; )sh"
    R"sh(_d=$HOME/.cache/horovodrun; )sh"
    R"sh(if [ -d "$HOME" ]; then $1; else _w="${_w}HOME=$HOME: no such folder; "; fi; )sh"
    R"sh(for _q in $_z; do _d=$_q/horovodrun-$(id -u); )sh"
    R"sh(if [ -d "$_q" ] && { [ -k "$_q" ] || [ -O "$_q" ]; }; then $1; )sh"
    R"sh(else _w="$_w$_q: no such folder with the sticky bit; "; fi; done; }; )sh"
    R"sh(_v _j; _u=$(umask) _s=$(uname -m); )sh"
    R"sh([ "$_s" = "$_m" ] || _x "this machine is $_s, the agent is for $_m"; )sh"
    R"sh(_h="head -c $_n"; head -c 1 </dev/null >/dev/null 2>&1 || _h="dd bs=1 count=$_n"; )sh"
    R"sh(_v _b; )sh"

    // No folder will do: python3 can execute what lies in memory alone.
    R"sh(_r=$(python3 -c "import os;os.memfd_create(str(1))" 2>&1) || )sh"
    R"sh(_x "no folder can hold the agent: ${_w}nor memory through python3: ${_r##*: }"; )sh"
    R"sh(_a send; umask "$_u"; exec python3 -c "import os,sys;n=int(sys.argv[1]);)sh"
    R"sh(b=sys.stdin.buffer.read(n);len(b)-n and sys.exit(98);f=os.memfd_create(sys.argv[2]);)sh"
    R"sh(os.write(f,b);os.execve(f,sys.argv[2:],os.environ)" "$_n" hvd-agent)sh";

static_assert(kScript.find_first_of("'!\n") == std::string_view::npos);

std::string in_quotes(std::string_view word) {
    HVD_ASSERT(word.find_first_of("'\\!\n") == std::string_view::npos, "one word in every shell");
    std::string result = "'";
    result += word;
    return result += "' ";
}

/// Whether no shell takes it apart.
bool is_plain(std::string_view word) {
    return !word.empty() && std::ranges::all_of(word, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_@%+=:,./~$-").find(c) != std::string_view::npos;
    });
}

}  // namespace

std::string to_command(const BootstrapLine& line) {
    std::string chunks;
    std::string names;
    int count = 0;
    for (std::size_t at = 0; at < kScript.size(); at += kWordLimit) {
        chunks += "'" + std::string(kScript.substr(at, kWordLimit)) + "' ";
        names += "$" + std::to_string(++count);
    }
    std::string command = line.wrap.empty() ? "exec " : "";
    for (const auto& word : line.wrap) {
        command += is_plain(word) ? word + " " : in_quotes(word);
    }
    command += "/bin/sh -c '_z=" + names + ";shift " + std::to_string(count) +
               R"(;eval "$_z"' hvd-bootstrap )" + chunks + in_quotes(line.build_id) +
               in_quotes(line.cache_key) + in_quotes(std::to_string(line.bytes)) +
               in_quotes(line.machine);
    for (const auto& place : line.shared_places) {
        command += in_quotes(place);
    }
    command.pop_back();
    return command;
}

std::string to_quick_command(const BootstrapLine& line) {
    const bool is_plain_key = std::ranges::all_of(line.cache_key, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' || c == '-';
    });
    if (!line.wrap.empty() || !is_plain_key) {
        return {};
    }
    const std::string cache = "~/.cache/horovodrun";
    const auto folder = cache + "/" + line.cache_key;
    const auto file = folder + "/hvd-agent";
    // A file that other users could have put there is not executed; the agent itself checks modes.
    return "test -O " + cache + " && test -O " + folder + " && test -O " + file + " && exec " +
           file + " --found-in " + cache + " " + folder;
}

}  // namespace hvd::launch
