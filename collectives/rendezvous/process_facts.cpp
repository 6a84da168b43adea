// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/process_facts.hpp"

#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"

#include <array>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

constexpr int kMaxGenerations = 64;

[[nodiscard]] std::optional<pid_t> parent_of(pid_t pid) {
    const auto path = "/proc/" + std::to_string(pid) + "/stat";
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> text{};
    const auto size = ::read(file.get(), text.data(), text.size());
    if (size <= 0) {
        return std::nullopt;
    }
    return parent_from_stat({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::optional<pid_t> parent_from_stat(std::string_view stat) {
    // "42 (any name, with blanks or ')') S 41 ..."
    const auto name_end = stat.rfind(')');
    if (name_end == std::string_view::npos) {
        return std::nullopt;
    }
    const auto fields = split(trim(stat.substr(name_end + 1)), ' ');
    return fields.size() < 2 ? std::nullopt : parse_number<pid_t>(fields[1]);
}

bool is_ancestor(pid_t ancestor, pid_t pid) {
    for (int generation = 0; generation < kMaxGenerations; ++generation) {
        const auto parent = parent_of(pid);
        if (!parent || *parent == 0) {
            return false;
        }
        if (*parent == ancestor) {
            return true;
        }
        pid = *parent;
    }
    return false;
}

pid_t launcher_of(const LocalMeeting& meeting) {
    return meeting.launcher != 0 ? meeting.launcher : ::getppid();
}

}  // namespace hvd::coll
