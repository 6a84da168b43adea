// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/pidfd.hpp"

#include <array>
#include <csignal>
#include <cstdint>

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvd {
namespace {

// The kernel's struct pidfd_info in its first size, declared here: the headers of Debian 12 are
// older than it.
struct PidfdInfo {
    std::uint64_t mask = 0;
    std::uint64_t cgroup = 0;
    std::array<std::uint32_t, 11> numbers{};  // pid, tgid, ppid and who runs it
    std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);

constexpr std::uint64_t kWantExit = 1U << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

UniqueFd open_pidfd(pid_t pid) noexcept {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

std::optional<int> exit_status(int pidfd) noexcept {
    PidfdInfo info;
    info.mask = kWantExit;
    if (::ioctl(pidfd, kGetInfo, &info) != 0 || (info.mask & kWantExit) == 0) {
        return std::nullopt;
    }
    return info.exit_code;
}

bool send_signal_by(int pidfd, pid_t pid, int number) noexcept {
    if (pidfd >= 0) {
        return ::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0) == 0;
    }
    return ::kill(pid, number) == 0;
}

}  // namespace hvd
