// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/ranks/kernel_log.hpp"

#include "collectives/base/text.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// The kernel gives one record at a time, none longer than this.
constexpr std::size_t kMaxRecord = 8192;

/// More than its buffer holds, so that a log that never ends does not hold up the agent.
constexpr int kMaxReads = 100'000;

/// Of a machine that kills all the time; nobody asks for those of others.
constexpr std::size_t kMaxKills = 1024;

}  // namespace

std::optional<MemoryKill> parse_memory_kill(std::string_view record) {
    const auto semicolon = record.find(';');
    const auto comma = record.find(',');
    if (semicolon == std::string_view::npos || comma > semicolon) {
        return std::nullopt;
    }
    // Eight levels of importance, times the facility: 0 is the kernel.
    constexpr unsigned kLevels = 8;
    const auto importance = parse_number<unsigned>(record.substr(0, comma));
    if (!importance || *importance >= kLevels) {
        return std::nullopt;
    }
    auto text = record.substr(semicolon + 1);
    text = text.substr(0, text.find('\n'));  // what follows describes a device
    constexpr std::string_view kWords = "Killed process ";
    const auto begin = text.find(kWords);
    if (begin == std::string_view::npos) {
        return std::nullopt;
    }
    text.remove_prefix(begin);
    const auto name = text.find(" (");
    if (name == std::string_view::npos) {
        return std::nullopt;
    }
    const auto pid = parse_number<pid_t>(text.substr(kWords.size(), name - kWords.size()));
    return pid ? std::optional(MemoryKill{.pid = *pid, .text = std::string(text)}) : std::nullopt;
}

bool is_first_pid_namespace(std::string_view link) {
    return link == "pid:[4026531836]";  // PROC_PID_INIT_INO, a constant of the kernel
}

void KernelLog::start(const std::string& root) {
    std::array<char, PATH_MAX> link{};
    const auto size = ::readlink((root + "/proc/self/ns/pid").c_str(), link.data(), link.size());
    if (size <= 0 || !is_first_pid_namespace({link.data(), static_cast<std::size_t>(size)})) {
        return;
    }
    file_.reset(::open((root + "/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (file_ && ::lseek(file_.get(), 0, SEEK_END) < 0) {
        file_.reset();
    }
}

std::string KernelLog::find_kill(pid_t pid) {
    read_on();
    const auto found = kills_.find(pid);
    if (found == kills_.end()) {
        return {};
    }
    auto text = std::move(found->second);
    kills_.erase(found);
    return text;
}

void KernelLog::read_on() {
    std::array<char, kMaxRecord> record;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (int reads = 0; file_ && reads < kMaxReads; ++reads) {
        const auto size = ::read(file_.get(), record.data(), record.size());
        if (size < 0 && (errno == EINTR || errno == EPIPE)) {
            continue;  // EPIPE: what came next was overwritten before we read it
        }
        if (size < 0 && errno != EAGAIN) {
            file_.reset();  // it may not be read
        }
        if (size <= 0) {
            return;
        }
        auto kill = parse_memory_kill({record.data(), static_cast<std::size_t>(size)});
        if (kill && kills_.size() < kMaxKills) {
            kills_.insert_or_assign(kill->pid, std::move(kill->text));
        }
    }
}

}  // namespace hvd::launch::agent
