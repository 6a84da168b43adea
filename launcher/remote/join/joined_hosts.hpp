// SPDX-License-Identifier: Apache-2.0
//
// The hosts that a job expects and those that have joined. A machine without I/O.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The hosts that the user expects: by name, else by number; without
/// both, as many as are needed for `processes`.
struct ExpectedHosts {
    std::vector<Host> hosts{};
    std::optional<int> count{};
    std::optional<int> processes{};
};

/// A host that asks to join.
struct Joiner {
    std::string name;
    std::string address;
    int slots = 0;  // 0: as many as it has
};

class JoinedHosts final {
public:
    explicit JoinedHosts(ExpectedHosts expected) : expected_(std::move(expected)) {}

    /// Adds the host and returns the name by which the job knows it: as it was written in -H.
    /// Errors, which are sent to the joiner too: invalid_argument.
    [[nodiscard]] Result<std::string> admit(const Joiner& joiner);

    /// Records the host's slots: its GPUs, or else its CPUs.
    void count(std::string_view name, int slots);

    /// The host has left before the job began; it may join again.
    void leave(std::string_view name);

    [[nodiscard]] bool is_complete() const;

    /// "2 of 4 hosts have joined; node3, node4 have not".
    [[nodiscard]] std::string progress() const;

    /// All that have joined: in the order of -H, else by name (worker-2 before worker-10). With a
    /// number of hosts and of processes, the processes are shared evenly among hosts that gave no
    /// slots. To be called once it is complete.
    [[nodiscard]] std::vector<Host> hosts() const;

private:
    struct Member {
        Joiner joiner;
        std::optional<int> counted;  // once it has told
    };

    [[nodiscard]] Result<std::string> known_name(const std::string& name) const;
    [[nodiscard]] const Member* find(std::string_view name) const;
    [[nodiscard]] std::size_t wanted() const noexcept;
    [[nodiscard]] int slots() const;

    ExpectedHosts expected_;
    std::vector<Member> members_;
};

/// Whether two names mean one host: case does not matter, and "node1" means "node1.example.org".
[[nodiscard]] bool is_same_host(std::string_view a, std::string_view b);

/// "worker-2" before "worker-10".
[[nodiscard]] bool comes_before(std::string_view a, std::string_view b);

}  // namespace hvd::launch
