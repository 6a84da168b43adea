// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/timer.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/wire/frames.hpp"

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::launch {

class IoThread;

/// Ends what the agent of a lost host may have left there: a new agent, with no ranks, kills
/// whatever has the job's id in its environment. Where guard and agent were killed at once, this
/// finds what the ranks had daemonised. Thread: io.
class OrphanCleanup final {
public:
    /// A host that cannot be reached within this time ends its processes by its own lease, if
    /// a guard or agent is left there; the report says so. A host that
    /// was silent before will hardly answer now.
    static constexpr auto kTimeout = std::chrono::seconds(3);
    static constexpr auto kSilentHostTimeout = std::chrono::seconds(1);

    /// `changed` is called whenever a host's cleanup is over.
    OrphanCleanup(IoThread& io, Starter& starter, std::function<void()> changed)
        : io_(io), starter_(starter), changed_(std::move(changed)) {}

    void clean_up(const Host& host, const std::string& job_id, std::chrono::seconds timeout);
    [[nodiscard]] bool is_idle() const noexcept;

    /// The processes that withstood, on all hosts so far.
    [[nodiscard]] std::vector<HostSurvivor> take_survivors() {
        return std::exchange(survivors_, {});
    }

    /// The hosts whose survivors are unknown, and why.
    [[nodiscard]] std::vector<UnsweptHost> take_unswept() { return std::exchange(unswept_, {}); }

private:
    struct HostCleanup {
        explicit HostCleanup(IoThread& io) : limit(io) {}

        std::string host;
        wire::FrameReader<wire::FromAgent> reader;
        Timer limit;
        bool has_asked = false;
        bool is_over = false;
        std::unique_ptr<AgentChannel> channel;  // until the end: its handlers may not destroy it
    };

    void receive(HostCleanup& cleanup, const std::string& job_id, std::span<const std::byte> bytes);
    static void ask(HostCleanup& cleanup, const std::string& job_id);
    void give_up(HostCleanup& cleanup, std::string why);
    void finish(HostCleanup& cleanup);

    IoThread& io_;
    Starter& starter_;
    std::function<void()> changed_;
    std::vector<HostSurvivor> survivors_;
    std::vector<UnsweptHost> unswept_;
    std::list<HostCleanup> cleanups_;
};

}  // namespace hvd::launch
