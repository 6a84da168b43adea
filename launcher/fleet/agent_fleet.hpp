// SPDX-License-Identifier: Apache-2.0
//
// All agents of a job, or of an examination by the doctor, as one.
#pragma once

#include "launcher/fleet/agent_streams.hpp"
#include "launcher/fleet/heartbeat.hpp"
#include "launcher/model/host.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/remote/starter.hpp"
#include "launcher/wire/frames.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hvd::launch {

class IoThread;

/// How an agent ended, or that it is given up.
struct AgentEnd {
    std::size_t host = 0;
    std::string why;
    bool is_silent = false;  // nothing came from it for the whole lease
    /// When that was; of an agent that fell silent or was refused, its last byte that counts.
    std::chrono::steady_clock::time_point since{};
};

/// Starts one agent on each host, through whichever starter; asks some or all of them a question
/// with one deadline; hears by a heartbeat that they live and how their clocks differ; dismisses
/// them. Hosts are numbered in the order in which `link` is given them.
///
/// The owner decides the meaning of an end or an answer. Thread: io.
class AgentFleet final {
public:
    /// Called from the loop, before `dismiss`. Each may be empty.
    struct Events {
        /// A message that answers no question.
        std::function<void(std::size_t host, wire::FromAgent message)> on_message{};

        /// Called once for each agent; it is not heard any more.
        std::function<void(const AgentEnd& end)> on_end{};

        /// The host has answered the question of the present `ask`, or has linked.
        std::function<void(std::size_t host)> on_answer{};

        /// The host has been silent for so long that people should know. Told once.
        std::function<void(std::size_t host, const std::string& sentence)> on_silence{};
    };

    /// How long answers are waited for.
    struct Timeout {
        Deadline deadline;

        /// The time that the other agents still have once one has ended; nothing: until the
        /// deadline.
        std::optional<std::chrono::milliseconds> after_an_end{};
    };

    /// An agent of another build than `build_id` is refused. One that is silent for the lease is
    /// given up, and ends its ranks by itself; a lease of 0 never ends.
    AgentFleet(IoThread& io, std::string build_id, std::chrono::milliseconds lease);

    /// Replaces the events told so far.
    void listen(Events events) { events_ = std::move(events); }

    /// Starts the agents and waits for what each tells of its host. Nothing for a host whose agent
    /// has ended (see `end_of`), or has not reported when the wait was over. `starter` outlives
    /// the fleet. Called once.
    [[nodiscard]] std::vector<std::optional<HostFacts>> link(Starter& starter,
                                                             const std::vector<Host>& hosts,
                                                             const Timeout& timeout);

    /// Sends `questions`, by host (an empty one is not sent), and waits for an Answer from each of
    /// these hosts. Nothing for those that were not asked or have not answered when the wait was
    /// over. The wait ends early by IoThread::stop.
    template <class Answer>
    [[nodiscard]] std::vector<std::optional<Answer>> ask(std::vector<Frame> questions,
                                                         const Timeout& timeout) {
        std::vector<std::optional<Answer>> answers(size());
        ask(
            [&answers](std::size_t host, wire::FromAgent& message) {
                auto* answer = std::get_if<Answer>(&message);
                if (answer != nullptr) {
                    answers[host] = std::move(*answer);
                }
                return answer != nullptr;
            },
            std::move(questions), timeout);
        return answers;
    }

    /// The same where an answer is more than its message. `take` is given each message of a host
    /// that has not answered, and says whether it took it as the answer.
    using Take = std::function<bool(std::size_t host, wire::FromAgent& message)>;
    void ask(Take take, std::vector<Frame> questions, const Timeout& timeout);

    void send(std::size_t host, const wire::ToAgent& message) { streams_.send(host, message); }
    void send_frame(std::size_t host, Frame frame) { streams_.send_frame(host, std::move(frame)); }
    void send_all(const wire::ToAgent& message) { streams_.send_all(message); }

    /// Gives an agent up because of a message; its end follows.
    void refuse(std::size_t host, Error error) { streams_.refuse(host, std::move(error)); }

    /// Gives up an agent that does not answer. Its end is not reported.
    void abandon(std::size_t host, Error error);

    /// Its silence means nothing from now on: it has nothing left to tell.
    void expect_silence(std::size_t host);

    // ---- heartbeat and clocks ----

    /// Ranks start next: agents of other machines get their lease, and clocks should be known soon.
    void hurry_heartbeat();

    /// horovodrun is about to be stopped: the leases rest, and `told` is called once every agent is
    /// told so. `resume` renews all leases.
    void suspend(const std::function<void()>& told);
    void resume();

    /// A time of that host's steady clock on ours.
    [[nodiscard]] std::int64_t to_our_clock(std::size_t host, std::int64_t time_ns) const;
    [[nodiscard]] std::int64_t now_ns() const;

    /// Has `on_clock` told how the clock of a host differs from ours each time that it is known.
    using OnClock = std::function<void(std::size_t host,
                                       const ClockOffset::Sample& sample,
                                       std::chrono::steady_clock::time_point now)>;
    void watch_clocks(OnClock on_clock) { on_clock_ = std::move(on_clock); }

    // ---- the end ----

    /// Sends the job's end to agents that joined, and ends our direction of all
    /// streams: an agent that still has ranks ends them, and itself. Ends are reported as before.
    void close(const wire::Ended& ended);

    /// The same, for agents without ranks; waits, for 5 s at most, until all have ended. No more
    /// events are reported.
    void dismiss(int exit_code);

    // ---- what is known ----

    [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }
    [[nodiscard]] Starter& starter() const noexcept { return *starter_; }
    [[nodiscard]] const Host& host(std::size_t index) const { return streams_.host(index); }
    [[nodiscard]] const std::string& name(std::size_t index) const { return host(index).name; }
    [[nodiscard]] bool has_ended(std::size_t index) const { return streams_.has_ended(index); }
    [[nodiscard]] bool have_all_ended() const noexcept { return streams_.all_ended(); }
    [[nodiscard]] const std::optional<Error>& end_of(std::size_t index) const {
        return streams_.end_of(index);
    }

    /// As of AgentChannel.
    [[nodiscard]] std::string progress(std::size_t index) const { return streams_.progress(index); }
    [[nodiscard]] bool is_on_this_machine(std::size_t index) const {
        return streams_.is_on_this_machine(index);
    }
    [[nodiscard]] bool wants_job_end(std::size_t index) const {
        return streams_.wants_job_end(index);
    }

private:
    /// The question that is open at present.
    struct Question {
        Take take;
        std::vector<bool> is_awaited;  // by host
        Timeout timeout;
    };

    void wait(Question question);
    [[nodiscard]] bool is_settled() const;
    void on_message(std::size_t host, wire::FromAgent message);
    [[nodiscard]] bool take_answer(std::size_t host, wire::FromAgent& message);
    void check_build(std::size_t host, const wire::Hello& hello);
    void take_pong(std::size_t host, const wire::Pong& pong);
    void on_stream_end(std::size_t host);
    void agent_ended(const AgentEnd& end);
    void begin_heartbeat(std::size_t host);
    void beat();
    void ping(const std::vector<std::size_t>& hosts);
    void wait_for_beat();

    IoThread& io_;
    std::string build_id_;
    std::chrono::milliseconds lease_;
    Events events_;
    OnClock on_clock_;
    AgentStreams streams_;
    Starter* starter_ = nullptr;
    std::optional<Heartbeat> heartbeat_;  // from `link` on
    std::optional<Question> question_;
    bool is_dismissed_ = false;
    Timer heartbeat_timer_;
    Timer limit_;
};

}  // namespace hvd::launch
