// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/unique_fd.hpp"
#include "launcher/wire/frames.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::test {

namespace wire = launch::wire;

/// Of the jobs of this process, and of no other: an agent ends whatever has the id of its job.
[[nodiscard]] const std::string& job_id();

/// How one rank ended, and all that it wrote.
struct RankStory {
    std::optional<wire::Started> started;
    std::optional<wire::StartFailed> failed;
    std::optional<wire::Exited> exited;
    std::vector<coll::agent_message::Report> reports;
    std::string out;
    std::string err;
};

/// A launcher for tests: starts the agent of this build and speaks to it over two pipes. Throws
/// std::runtime_error on whatever a test did not expect. One per process at a time.
class AgentClient final {
public:
    static constexpr auto kLimit = std::chrono::seconds(20);

    /// `environment` is added to our own; `before_exec` runs in the agent's process first.
    explicit AgentClient(const std::vector<std::string>& environment = {},
                         const std::function<void()>& before_exec = {});

    /// Kills the guard if it still lives, and reaps it.
    ~AgentClient();
    AgentClient(const AgentClient&) = delete;
    AgentClient& operator=(const AgentClient&) = delete;

    [[nodiscard]] const wire::Hello& hello() const { return hello_; }
    [[nodiscard]] const launch::HostFacts& facts() const { return facts_; }
    [[nodiscard]] pid_t guard() const { return guard_; }

    /// A plan for ranks that run these commands, in `/`, with nothing but PATH in their
    /// environment.
    [[nodiscard]] static launch::HostPlan plan(
        const std::vector<std::vector<std::string>>& commands);

    void start(const launch::HostPlan& plan);
    void send(const wire::ToAgent& message);
    void send_raw(std::string_view bytes);
    void close() { to_agent_.reset(); }

    /// Takes in messages until `is_enough` or AllGone; the output that arrives is credited.
    void read_until(const std::function<bool()>& is_enough);
    void read_until_all_gone() {
        read_until([] { return false; });
    }

    /// Whether it can be said at once that the rank wrote `text` on standard output.
    [[nodiscard]] bool has_written(int rank, std::string_view text) const;

    /// Waits for the guard's end and returns its exit code, 128+n for a signal.
    int wait();

    /// Asks the launcher for keys: what the test wants to answer itself.
    std::function<void(const wire::FromAgent&)> on_message;

    std::vector<RankStory> ranks;
    std::vector<std::string> notes;
    std::vector<wire::Leaving> leavings;
    std::optional<wire::AllGone> all_gone;
    std::uint64_t input_taken = 0;
    bool gives_credit = true;

private:
    wire::FromAgent next();
    void take(wire::FromAgent message);

    UniqueFd to_agent_;
    UniqueFd from_agent_;
    pid_t guard_ = -1;
    Deadline deadline_ = Deadline::in(kLimit);
    wire::FrameReader<wire::FromAgent> reader_;
    wire::Hello hello_;
    launch::HostFacts facts_;
};

/// The same as a command of a shell.
[[nodiscard]] inline std::vector<std::string> shell(std::string script) {
    return {"/bin/sh", "-c", std::move(script)};
}

}  // namespace hvd::test
