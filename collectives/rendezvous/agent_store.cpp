// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/agent_store.hpp"

#include "collectives/base/unix_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;

constexpr auto kPutLimit = 30s;    // the agent is on this host and answers at once
constexpr auto kReportLimit = 1s;  // a rank that is about to fail must not hang on it
constexpr std::size_t kMaxReportText = std::size_t{64} << 10;

using Bytes = std::vector<std::byte>;

class SocketAgentStore final : public AgentStore {
public:
    SocketAgentStore(UniqueFd socket, std::string where)
        : socket_(std::move(socket)), where_(std::move(where)) {}

    [[nodiscard]] Status greet(const LaunchContract& contract, Deadline deadline) {
        HVD_TRY_STATUS(
            send(agent_message::Hello{.job_id = contract.job_id, .rank = contract.topology.rank},
                 deadline));
        HVD_TRY(const auto answer, receive(deadline));
        const auto* welcome = std::get_if<agent_message::Welcome>(&answer);
        if (welcome == nullptr) {
            return refusal(answer);
        }
        if (welcome->version != kAgentProtocolVersion) {
            return Error{Errc::unsupported,
                         where_ + " speaks version " + std::to_string(welcome->version) +
                             " of the protocol, this library version " +
                             std::to_string(kAgentProtocolVersion) +
                             "; horovodrun and the horovod package must be of one release"};
        }
        first_world_ = static_cast<int>(welcome->first_world);
        return ok();
    }

    [[nodiscard]] int first_world() const noexcept override { return first_world_; }

    [[nodiscard]] Status put(std::string_view key, std::span<const std::byte> value) override {
        const auto request = next_request_++;
        const auto deadline = Deadline::in(kPutLimit);
        const auto step = "put \"" + std::string(key) + "\"";
        auto sent = send(
            agent_message::Put{
                .request = request, .key = std::string(key), .value = {value.begin(), value.end()}},
            deadline);
        if (!sent) {
            return std::move(sent).error().context(step);
        }
        auto answer = answer_to(request, deadline);
        if (!answer) {
            return std::move(answer).error().context(step);
        }
        return ok();
    }

    [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key,
                                                     Deadline deadline) override {
        if (!losses_.empty()) {
            return Error{Errc::unavailable, losses_.front().why};
        }
        const auto request = next_request_++;
        const auto step = "get \"" + std::string(key) + "\"";
        auto sent = send(agent_message::Get{.request = request, .key = std::string(key)}, deadline);
        if (!sent) {
            return std::move(sent).error().context(step);
        }
        auto answer = answer_to(request, deadline);
        if (!answer) {
            return std::move(answer).error().context(step);
        }
        if (!*answer) {
            return Error{Errc::unavailable, losses_.front().why};
        }
        return **std::move(answer);
    }

    [[nodiscard]] Result<std::vector<WorldMember>> enter_world(int world,
                                                               Deadline deadline) override {
        const auto request = next_request_++;
        HVD_TRY_STATUS(
            send(agent_message::Get{.request = request, .key = members_key(world)}, deadline));
        std::optional<Bytes> answer;
        while (!answer) {  // losses meanwhile do not matter
            HVD_TRY(answer, answer_to(request, deadline));
        }
        HVD_TRY(auto members, decode_members(*answer));
        for (const auto& member : members) {
            members_.push_back(member.rank);
        }
        first_loss_.reset();
        for (auto& loss : std::exchange(losses_, {})) {
            remember(std::move(loss));
        }
        return members;
    }

    [[nodiscard]] int failure_descriptor() const noexcept override { return socket_.get(); }

    [[nodiscard]] Result<std::optional<PeerFailure>> next_failure() override {
        while (losses_.empty()) {
            HVD_TRY(auto message, receive_now());
            if (!message) {
                return std::optional<PeerFailure>{};
            }
            take_loss(*message);  // anything else answers what nobody waits for any more
        }
        std::optional<PeerFailure> loss = std::move(losses_.front());
        losses_.pop_front();
        return loss;
    }

    [[nodiscard]] std::optional<PeerFailure> first_failure(Deadline deadline) override {
        while (!first_loss_) {
            auto message = receive(deadline);
            if (!message) {
                return std::nullopt;
            }
            take_loss(*message);
        }
        return first_loss_;
    }

    [[nodiscard]] Status report(ReportKind kind, int peer, std::string_view text) override {
        // The end of a traceback says what happened.
        if (text.size() > kMaxReportText) {
            text.remove_prefix(text.size() - kMaxReportText);
        }
        const bool is_numbered_otherwise = peer >= 0 && !members_.empty();
        peer = is_numbered_otherwise ? members_.at(static_cast<std::size_t>(peer)) : peer;
        return send(agent_message::Report{.kind = kind, .peer = peer, .text = std::string(text)},
                    Deadline::in(kReportLimit));
    }

private:
    [[nodiscard]] Status send(const RankMessage& message, Deadline deadline) {
        const auto frame = encode(message);
        const std::lock_guard lock(send_mutex_);
        if (is_send_broken_) {
            return Error{Errc::unavailable, where_ + ": the connection is broken"};
        }
        auto sent = send_all(socket_.get(), frame, deadline);
        if (!sent) {
            is_send_broken_ = true;  // perhaps in the middle of a frame
            return std::move(sent).error().context(where_);
        }
        return ok();
    }

    [[nodiscard]] Result<AgentMessage> receive(Deadline deadline) {
        while (true) {
            HVD_TRY(auto message, receive_now());
            if (message) {
                return std::move(*message);
            }
            auto ready = await_socket(socket_.get(), POLLIN, deadline);
            if (!ready) {
                return std::move(ready).error().context(where_);
            }
        }
    }

    /// The next message, if it has come.
    [[nodiscard]] Result<std::optional<AgentMessage>> receive_now() {
        std::array<std::byte, 4096> bytes{};
        while (true) {
            HVD_TRY(auto message, reader_.next());
            if (message) {
                return message;
            }
            const auto size = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (size > 0) {
                reader_.feed(std::span(bytes).first(static_cast<std::size_t>(size)));
            } else if (size == 0) {
                return Error{Errc::unavailable,
                             where_ +
                                 " closed the connection; it may have been killed, or it "
                                 "refused this process (another user, another job, or not a "
                                 "descendant of the rank)"};
            } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                return std::optional<AgentMessage>{};
            } else if (errno != EINTR) {
                auto error = system_error(where_ + ": recv", errno);
                error.code = Errc::unavailable;
                return error;
            }
        }
    }

    void take_loss(const AgentMessage& message) {
        if (const auto* lost = std::get_if<agent_message::Lost>(&message)) {
            remember({.rank = lost->rank, .why = lost->why});
        }
    }

    /// `loss` has the launcher's number of the rank. That of a rank outside of the world is
    /// dropped.
    void remember(PeerFailure loss) {
        if (!members_.empty()) {
            const auto found = std::ranges::find(members_, loss.rank);
            if (found == members_.end()) {
                return;
            }
            loss.rank = static_cast<int>(found - members_.begin());
        }
        losses_.push_back(std::move(loss));
        first_loss_ = first_loss_.value_or(losses_.back());
    }

    /// Skips the answers to requests whose deadline passed. Nothing: a rank of the world is gone,
    /// whose answer it may be that we wait for.
    [[nodiscard]] Result<std::optional<Bytes>> answer_to(std::uint32_t request, Deadline deadline) {
        while (true) {
            HVD_TRY(auto message, receive(deadline));
            const auto known = losses_.size();
            take_loss(message);
            if (losses_.size() != known) {
                return std::optional<Bytes>{};
            }
            if (auto* value = std::get_if<agent_message::Value>(&message);
                value != nullptr && value->request == request) {
                return std::optional(std::move(value->value));
            }
            if (const auto* done = std::get_if<agent_message::Done>(&message);
                done != nullptr && done->request == request) {
                return std::optional(Bytes{});
            }
            if (const auto* failed = std::get_if<agent_message::Failed>(&message);
                failed != nullptr && failed->request == request) {
                return refusal(message);
            }
        }
    }

    [[nodiscard]] Error refusal(const AgentMessage& message) const {
        const auto* failed = std::get_if<agent_message::Failed>(&message);
        return Error{Errc::invalid_argument,
                     where_ + ": " + (failed != nullptr ? failed->why : "unexpected answer")};
    }

    UniqueFd socket_;
    std::string where_;
    FrameReader<AgentMessage> reader_;
    std::deque<PeerFailure> losses_;  // not asked for yet
    std::optional<PeerFailure> first_loss_;
    std::vector<int> members_;  // by rank of the world that was entered, the launcher's numbers
    std::uint32_t next_request_ = 1;
    int first_world_ = 0;

    // For `report`, which any thread may call.
    std::mutex send_mutex_;
    bool is_send_broken_ = false;  // guarded by send_mutex_
};

}  // namespace

Result<std::unique_ptr<AgentStore>> AgentStore::connect(const LaunchContract& contract,
                                                        Deadline deadline) {
    const auto where = "agent at socket @" + contract.agent_socket;
    HVD_TRY(auto socket, connect_abstract(contract.agent_socket, SOCK_STREAM, deadline));
    if (!socket) {
        return Error{Errc::unavailable,
                     where +
                         ": nobody listens there; the job has ended, or HOROVOD_AGENT_SOCKET "
                         "was inherited from another job or container"};
    }
    HVD_TRY(const auto agent, peer_credentials(socket.get()));
    if (agent.uid != ::geteuid()) {
        return Error{Errc::unavailable, where + " belongs to user " + std::to_string(agent.uid) +
                                            ", not to user " + std::to_string(::geteuid())};
    }
    auto store = std::make_unique<SocketAgentStore>(std::move(socket), where);
    HVD_TRY_STATUS(store->greet(contract, deadline));
    return std::unique_ptr<AgentStore>(std::move(store));
}

}  // namespace hvd::coll
