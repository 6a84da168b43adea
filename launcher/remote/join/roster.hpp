// SPDX-License-Identifier: Apache-2.0
//
// Who is to join a job and who has. A machine without I/O.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// What the user said about who is to join. Named hosts go first, then a number of hosts; without
/// both as many join as are needed for `processes`.
struct JoinWishes {
    std::vector<Host> hosts{};
    std::optional<int> count{};
    std::optional<int> processes{};
};

/// Who stands at the door.
struct Joiner {
    std::string name;
    std::string address;
    int slots = 0;  // 0: as many as it has
};

class JoinRoster final {
public:
    explicit JoinRoster(JoinWishes wishes) : wishes_(std::move(wishes)) {}

    /// Takes it in and gives the name by which the job knows it: as it was written in -H. Errors,
    /// in words for the joiner too: invalid_argument.
    [[nodiscard]] Result<std::string> admit(const Joiner& joiner);

    /// It has told how many GPUs, or else CPUs, it has.
    void count(std::string_view name, int slots);

    /// It has gone before the job began; it may come again.
    void leave(std::string_view name);

    [[nodiscard]] bool is_complete() const;

    /// "2 of 4 hosts have joined; node3, node4 have not".
    [[nodiscard]] std::string progress() const;

    /// All that have joined: in the order of -H, else by name (worker-2 before worker-10). With a
    /// number of hosts and of processes, these are shared evenly among hosts that brought no slots
    /// of their own. To be called once it is complete.
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

    JoinWishes wishes_;
    std::vector<Member> members_;
};

/// Whether two names mean one host: letters count alike, and "node1" means "node1.example.org".
[[nodiscard]] bool is_same_host(std::string_view a, std::string_view b);

/// "worker-2" before "worker-10".
[[nodiscard]] bool comes_before(std::string_view a, std::string_view b);

}  // namespace hvd::launch
