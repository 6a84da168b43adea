// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/slurm/srun_line.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

namespace hvd::launch {
namespace {

/// The script of each task, in any POSIX sh; one task on each node goes on. A file system that all
/// nodes share is usual, so the agent is looked for at the path that it has here. Where it is
/// missing, is another build, or belongs to another user, it comes over standard input: that works
/// with every release of Slurm, which sbcast and srun --bcast (whose rules for names differ, and
/// which leave the file behind) do not. Names begin with `_hvd`: an exported variable of the same
/// name would carry the token into the environment of the ranks. The token reaches the agent on its
/// standard input too.
constexpr std::string_view kScript = R"sh(
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
_hvd_file=$1 _hvd_build=$2 _hvd_bytes=$3 _hvd_port=$4; shift 4
IFS= read -r _hvd_token || { echo "no token came from srun" >&2; exit 97; }
_hvd_try() {
  { [ -O "$1" ] || [ "$(stat -Lc %u "$1")" = 0 ]; } &&
    [ "$("$1" --version 2>&1 </dev/null)" = "$_hvd_build" ]
}
if ! _hvd_try "$_hvd_file" 2>/dev/null; then
  echo HVDSRUN1 send
  _hvd_tried=
  for _hvd_place in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
    _hvd_tried="$_hvd_tried $_hvd_place"
    _hvd_folder=$(umask 077; mktemp -d "$_hvd_place/hvd-agent.XXXXXX" 2>&1) || continue
    trap 'rm -rf "$_hvd_folder"; exit 97' HUP INT TERM
    _hvd_file=$_hvd_folder/hvd-agent
    echo : >"$_hvd_file" && chmod 700 "$_hvd_file" && "$_hvd_file" 2>/dev/null && break
    rm -rf "$_hvd_folder"; _hvd_folder=
  done
  [ -d "$_hvd_folder" ] || { echo "no folder may hold programs of yours, of$_hvd_tried" >&2; exit 97; }
  head -c "$_hvd_bytes" >"$_hvd_file"
  _hvd_try "$_hvd_file" || {
    echo "the agent that was sent does not run: $("$_hvd_file" --version 2>&1)" >&2
    rm -rf "$_hvd_folder"; exit 97; }
  trap - HUP INT TERM
  set -- "$@" --join-unlink "$_hvd_file"
fi
_hvd_address=$SLURM_LAUNCH_NODE_IPADDR
case $_hvd_address in
  '') ;;
  *:*) set -- --join "[$_hvd_address]:$_hvd_port" "$@" ;;
  *) set -- --join "$_hvd_address:$_hvd_port" "$@" ;;
esac
exec "$_hvd_file" "$@" <<_hvd_end
$_hvd_token
_hvd_end
)sh";

/// How many tasks, and where.
std::vector<std::string> layout(const SrunOrder& order) {
    if (order.tasks.empty()) {
        return {"--ntasks=" + std::to_string(order.nodes.size()), "--ntasks-per-node=1",
                "--nodelist=" + join(order.nodes, ",")};
    }
    std::vector<std::string> node_of_task;
    for (std::size_t node = 0; node < order.nodes.size(); ++node) {
        node_of_task.insert(node_of_task.end(), static_cast<std::size_t>(order.tasks[node]),
                            order.nodes[node]);
    }
    return {"--ntasks=" + std::to_string(node_of_task.size()), "--distribution=arbitrary",
            "--nodelist=" + join(node_of_task, ",")};
}

}  // namespace

std::vector<std::string> srun_line(const SrunOrder& order) {
    std::vector<std::string> line{
        "srun",
        "--jobid=" + order.job_id,
        "--nodes=" + std::to_string(order.nodes.size()),
    };
    if (order.component) {
        line.push_back("--het-group=" + std::to_string(*order.component));
    }
    std::ranges::move(layout(order), std::back_inserter(line));
    for (const auto& word : std::initializer_list<std::string_view>{
             "--overlap", "--mpi=none", "--cpu-bind=none", "--mem=0", "--export=ALL",
             // The end of one agent is ours to judge.
             "--kill-on-bad-exit=0", "--wait=0", "--job-name=horovodrun", "/bin/sh", "-c", kScript,
             "hvd-srun"}) {
        line.emplace_back(word);
    }
    for (auto word :
         {order.file, order.build_id, std::to_string(order.bytes), std::to_string(order.port)}) {
        line.push_back(std::move(word));
    }
    for (const auto& address : order.addresses) {
        line.emplace_back("--join");
        line.push_back(address + ":" + std::to_string(order.port));
    }
    constexpr int kMsPerSecond = 1'000;
    line.emplace_back("--join-step");
    line.emplace_back("slurm");
    line.emplace_back("--start-timeout");
    line.push_back(std::to_string((order.timeout.count() + kMsPerSecond - 1) / kMsPerSecond));
    return line;
}

}  // namespace hvd::launch
