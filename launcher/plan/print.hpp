// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// The way in which the agent of a host was started, as printed: the command, where it is one.
struct AgentWay {
    std::string host;
    std::string way;
};

/// Whether the values of variables and the arguments of commands are shown. They may be secrets,
/// which no log holds.
enum class Values : std::uint8_t { shown, hidden };

/// "python3 train.py", or "python3 (with 1 argument)" where they are hidden.
[[nodiscard]] std::string print_command(const std::vector<std::string>& words, Values values);

/// A command with variables set for it, as one could type it into a shell: "env A=B mpirun -np 4".
[[nodiscard]] std::string quote_line(const Environment& variables,
                                     const std::vector<std::string>& words);

/// The plan for a person: a line per rank, then what all ranks have in common, then how the agents
/// were started, where there are any. Ends with a newline.
[[nodiscard]] std::string print_text(const LaunchPlan& plan,
                                     std::span<const AgentWay> agents = {},
                                     Values values = Values::shown);

/// The plan for a program, with a newline at the end:
///
///     {version: 1, mode, np, hosts: [{host, slots, starter}],
///      ranks: [{rank, host, local_rank, local_size, cross_rank, cross_size,
///               gpus: [{index, uuid}], cpus: [number], env: {name: value}, cwd, argv: [text]}],
///      agents: [{host, way}],
///      launcher: {host, env, argv, file: {path, text}}}
///
/// `launcher` starts the ranks, with --mpi or --jsrun; `file` is there where it reads one.
/// `env` is what the rank gets on top of horovodrun's environment; empty `cpus` mean that its
/// affinity is left alone. With --facts no agent was started. Bytes that are no UTF-8 are shown
/// as U+FFFD. Fields are only ever added.
[[nodiscard]] std::string print_json(const LaunchPlan& plan, std::span<const AgentWay> agents = {});

/// The environment of every rank, without the variables that mpirun or jsrun adds, as a record of
/// the job:
///
///     {version: 1, job_id, hosts: [{host, env: {name: value}}],
///      ranks: [{rank, host, env: {name: value}}]}
///
/// A rank has what its host has, and over it what is its own. `own` is horovodrun's environment,
/// which ranks beside it inherit. A value that may be a secret is null: shown is that of names
/// that hold settings of the launcher, of libraries and of the interpreter, and look like no key.
[[nodiscard]] std::string print_environments(const LaunchPlan& plan, const Environment& own);

}  // namespace hvd::launch
