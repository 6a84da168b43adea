// SPDX-License-Identifier: Apache-2.0
//
// Hosts, links, agents and ranks that are not there: a Starter for the real launcher, in
// simulated time. An agent here speaks the real protocol and ends its ranks by the real Termination
// and Lease.
#pragma once

#include "launcher/agent/lifecycle/lease.hpp"
#include "launcher/agent/lifecycle/termination.hpp"
#include "launcher/net/simulated_time.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/wire/messages.hpp"
#include "tests/sim/script.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace hvd::sim {

namespace wire = launch::wire;

using TimePoint = launch::SimulatedTime::TimePoint;

inline constexpr const char* kBuildId = "simulated";

/// A fault as it took effect, which is what the launcher should find.
struct Fault {
    TimePoint at;
    std::size_t host = 0;
    std::optional<int> rank;  // none: the host itself
    bool is_silent = false;   // only its silence tells
    bool is_dated = false;    // its message has the time, by the clock of its host
    bool is_told = false;     // its end reached the launcher
};

struct SimRank {
    RankScript script;
    int number = 0;
    std::size_t host = 0;
    bool lives = false;
    bool is_killed_by_launcher = false;
    bool has_missed_a_peer = false;
    int wait_status = 0;
    std::optional<std::size_t> fault;  // injected into this rank
    TimePoint ended_at{};
};

class World;

/// One host: the link to it, its agent, its ranks.
class SimHost final {
public:
    SimHost(World& world, std::size_t index);

    void introduce();  // its handshake is over
    void begin_link(launch::AgentChannel::Handlers handlers);
    void forget_launcher() { handlers_ = {}; }
    void deliver(std::vector<std::byte> bytes);  // from the launcher
    void hang_up();                              // the launcher's end of stream
    void fail();                                 // the fault of the script

    void tell(const wire::FromAgent& message, std::optional<std::size_t> fault = {});
    void tell_bytes(std::vector<std::byte> sent, std::optional<std::size_t> fault = {});
    void rank_ended();

    [[nodiscard]] bool was_started() const noexcept { return started_at_.has_value(); }
    [[nodiscard]] std::optional<TimePoint> started_at() const noexcept { return started_at_; }
    [[nodiscard]] bool is_cut() const noexcept { return is_cut_; }
    [[nodiscard]] bool has_agent() const noexcept { return has_agent_; }

    /// On the clock of this host.
    [[nodiscard]] std::int64_t clock_ns() const;

private:
    using Termination = launch::agent::Termination;

    void hear(const std::vector<std::byte>& bytes);
    void on(const wire::Start& start);
    void on(const wire::Seek& seek);
    void on(const wire::PickPort& wanted);
    void on(const wire::Check& check);
    void on(const wire::Signal& signal);
    void on(const wire::Stop& stop);
    void on(const wire::Ping& ping);
    void on(const auto& /*other*/) {}
    [[nodiscard]] bool fails_instead_of(Question question);
    void misbehave(HostFault fault);
    void check_lease();
    void launcher_gone();
    void leave();
    void perform(Termination::Action action);
    void tick();
    void end_stream(std::optional<Error> error);
    [[nodiscard]] TimePoint arrival(TimePoint& last);

    World& world_;
    std::size_t index_;
    launch::AgentChannel::Handlers handlers_;
    Termination ending_;
    launch::agent::Lease lease_;
    TimePoint last_to_launcher_{};
    TimePoint last_to_agent_{};
    std::optional<TimePoint> started_at_;
    bool has_greeted_ = false;  // the launcher's magic came
    bool is_cut_ = false;       // nothing passes
    bool has_agent_ = false;
    bool is_refused_ = false;  // what it says from now on tells the launcher nothing
    bool is_over_ = false;     // the stream has ended for the launcher
};

class World final : public launch::Starter {
public:
    World(const Script& script, Policy policy);

    [[nodiscard]] std::string_view name() const noexcept override { return "simulated"; }
    [[nodiscard]] Result<std::unique_ptr<launch::AgentChannel>> start(
        const launch::Host& host) override;
    void say_through(const std::function<void(const std::string&)>& say) override { say_ = say; }

    /// Where the launcher wants it, else nowhere.
    void speak(const std::string& sentence) const {
        if (say_) {
            say_(sentence);
        }
    }

    // Used by hosts.
    [[nodiscard]] const Script& script() const noexcept { return script_; }
    [[nodiscard]] const Policy& policy() const noexcept { return policy_; }
    [[nodiscard]] TimePoint now() const noexcept { return time.now(); }
    [[nodiscard]] SimRank& rank(int number) { return ranks[static_cast<std::size_t>(number)]; }
    void in(Duration span, std::function<void()> call) { time.add(now() + span, std::move(call)); }
    [[nodiscard]] std::chrono::microseconds some_latency(Duration least);
    void shake_hands(std::size_t host);
    void start_rank(int number);
    void term(SimRank& rank);
    void kill(SimRank& rank);
    void end_rank(SimRank& rank, int wait_status);
    std::size_t log_fault(Fault fault);
    void is_missed(int number, std::size_t host, bool by_other_hosts_only, Duration more);

    launch::SimulatedTime time;
    std::vector<std::unique_ptr<SimHost>> hosts;
    std::vector<SimRank> ranks;
    std::vector<Fault> faults;
    std::size_t exits_to_hide = 0;
    std::optional<TimePoint> end_of_launcher;

private:
    void come_to_end(SimRank& rank);

    Script script_;
    Policy policy_;
    std::function<void(const std::string&)> say_;
    std::mt19937_64 dice_;
    std::size_t next_host_ = 0;
    std::size_t shaking_ = 0;
    std::deque<std::size_t> waiting_;
};

}  // namespace hvd::sim
