// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/agent/agent_client.hpp"

#include "collectives/base/random_id.hpp"
#include "tests/support/proc_group.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <type_traits>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Pipe make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::runtime_error("pipe");
    }
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

const std::string& job_id() {
    static const std::string id = random_id().value();
    return id;
}

AgentClient::AgentClient(const std::vector<std::string>& environment,
                         const std::function<void()>& before_exec) {
    (void)std::signal(SIGPIPE, SIG_IGN);
    auto to_agent = make_pipe();
    auto from_agent = make_pipe();
    // The pipes come first.
    guard_ = ::fork();  // NOLINT(cppcoreguidelines-prefer-member-initializer)
    if (guard_ == 0) {
        (void)std::signal(SIGPIPE, SIG_DFL);
        ::dup2(to_agent.read.get(), STDIN_FILENO);
        ::dup2(from_agent.write.get(), STDOUT_FILENO);
        for (const auto& variable : environment) {
            const auto equals = variable.find('=');
            // NOLINTNEXTLINE(concurrency-mt-unsafe): a forked child of one thread
            ::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
        }
        if (before_exec) {
            before_exec();
        }
        ::execl(HVD_AGENT, "hvd-agent", nullptr);
        ::_exit(127);
    }
    to_agent_ = std::move(to_agent.write);
    from_agent_ = std::move(from_agent.read);
    hello_ = std::get<wire::Hello>(next());
    facts_ = std::get<wire::Facts>(next()).facts;
}

AgentClient::~AgentClient() {
    if (guard_ > 0) {
        (void)::kill(guard_, SIGKILL);
        (void)::waitpid(guard_, nullptr, 0);
    }
}

launch::HostPlan AgentClient::plan(const std::vector<std::vector<std::string>>& commands) {
    launch::HostPlan plan;
    plan.host = "here";
    plan.starter = "test";
    plan.slots = static_cast<int>(commands.size());
    plan.agent_socket = unique_socket_name();
    plan.env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}};
    for (const auto& command : commands) {
        launch::ProcessSpec spec;
        spec.rank = static_cast<int>(plan.ranks.size());
        spec.argv = command;
        spec.cwd = "/";
        plan.ranks.push_back(spec);
    }
    return plan;
}

void AgentClient::start(const launch::HostPlan& plan) {
    ranks.resize(plan.ranks.size());
    send_raw(wire::kMagic);
    send(wire::Start{.job = {.id = job_id(), .env = {}, .ranks_env = {}}, .plan = plan});
}

void AgentClient::send(const wire::ToAgent& message) {
    const auto frame = wire::encode(message);
    send_raw({reinterpret_cast<const char*>(frame.data()), frame.size()});
}

void AgentClient::send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto count = ::write(to_agent_.get(), bytes.data(), bytes.size());
        if (count < 0) {
            return;  // it has ended; its last output is still to be read
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

wire::FromAgent AgentClient::next() {
    while (true) {
        auto message = reader_.next();
        if (!message) {
            throw std::runtime_error(message.error().message);
        }
        if (*message) {
            return std::move(**message);
        }
        pollfd ready{.fd = from_agent_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, deadline_.poll_timeout_ms()) <= 0) {
            throw std::runtime_error("the agent says nothing");
        }
        std::array<std::byte, 65536> bytes{};
        const auto count = ::read(from_agent_.get(), bytes.data(), bytes.size());
        if (count <= 0) {
            throw std::runtime_error("the agent's stream has ended");
        }
        reader_.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
    }
}

void AgentClient::read_until(const std::function<bool()>& is_enough) {
    deadline_ = Deadline::in(kLimit);
    while (!is_enough() && !all_gone) {
        auto message = next();
        if (on_message) {
            on_message(message);
        }
        take(std::move(message));
    }
}

void AgentClient::take(wire::FromAgent message) {
    const auto rank_of = [this](int rank) -> RankStory& {
        return ranks.at(static_cast<std::size_t>(rank));
    };
    std::visit(
        [&](auto& event) {
            using Event = std::decay_t<decltype(event)>;
            if constexpr (std::is_same_v<Event, wire::Started>) {
                rank_of(event.rank).started = event;
            } else if constexpr (std::is_same_v<Event, wire::StartFailed>) {
                rank_of(event.rank).failed = event;
            } else if constexpr (std::is_same_v<Event, wire::Exited>) {
                rank_of(event.rank).exited = event;
            } else if constexpr (std::is_same_v<Event, wire::RankReport>) {
                rank_of(event.rank).reports.push_back(event.report);
            } else if constexpr (std::is_same_v<Event, wire::Output>) {
                auto& story = rank_of(event.rank);
                auto& text = event.stream == launch::OutputStream::out ? story.out : story.err;
                text.append(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
                if (gives_credit && to_agent_) {
                    send(wire::Credit{.bytes = event.bytes.size()});
                }
            } else if constexpr (std::is_same_v<Event, wire::Note>) {
                notes.push_back(event.text);
            } else if constexpr (std::is_same_v<Event, wire::Leaving>) {
                leavings.push_back(event);
            } else if constexpr (std::is_same_v<Event, wire::AllGone>) {
                all_gone = event;
            } else if constexpr (std::is_same_v<Event, wire::InputTaken>) {
                input_taken += event.bytes;
            }
        },
        message);
}

bool AgentClient::has_written(int rank, std::string_view text) const {
    return ranks.at(static_cast<std::size_t>(rank)).out.find(text) != std::string::npos;
}

int AgentClient::wait() {
    int status = 0;
    const auto deadline = Deadline::in(kLimit);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread
    while (::waitpid(guard_, &status, WNOHANG) == 0) {
        if (deadline.has_passed()) {
            throw std::runtime_error("the guard does not end");
        }
        (void)::poll(nullptr, 0, 1);
    }
    guard_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace hvd::test
