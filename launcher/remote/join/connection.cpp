// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/connection.hpp"

#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <sys/socket.h>

namespace hvd::launch {
namespace {

/// Hello and Facts; more comes only once the launcher has asked.
constexpr std::size_t kMaxKept = std::size_t{1} << 20;

/// The time for a refused peer to read the reason.
constexpr auto kRefusalTimeout = std::chrono::seconds(2);
constexpr auto kNow = std::chrono::milliseconds(0);

Error broken(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

}  // namespace

JoinConnection::JoinConnection(IoThread& io,
                               UniqueFd reading,
                               UniqueFd writing,
                               std::string address)
    : io_(io),
      address_(std::move(address)),
      socket_(reading.get()),
      timeout_(io),
      soon_(io),
      writer_(io, std::move(writing)),
      reader_(io, std::move(reading)) {}

JoinConnection::~JoinConnection() = default;

void JoinConnection::start(const wire::Key& token,
                           std::chrono::milliseconds timeout,
                           Events events) {
    events_ = std::move(events);
    handshake_.emplace(wire::JoinHandshake::listening(token, wire::make_join_nonce()));
    writer_.send(handshake_->take_output());
    timeout_.set(io_.in(timeout), [this] {
        fail({Errc::timed_out, is_proven() ? "it did not say who it is"
                                           : "it did not prove that it knows the token"});
    });
    reader_.start(
        {.on_bytes = [this](std::span<const std::byte> bytes) { receive(bytes); },
         .on_end = [this](std::optional<Error> error) { stream_ended(std::move(error)); }});
}

void JoinConnection::receive(std::span<const std::byte> bytes) {
    if (state_ == State::over || state_ == State::refused) {
        return;
    }
    if (state_ == State::unauthenticated) {
        if (auto status = shake_hands(bytes); !status) {
            fail(std::move(status).error());
            return;
        }
        if (bytes.empty()) {
            return;
        }
    }
    auto plain = encryption_->decryptor.decrypt(bytes);
    auto status = plain ? take_plain(std::move(*plain)) : Status(std::move(plain).error());
    if (!status) {
        fail(std::move(status).error());
    }
}

/// Leaves of `bytes` what is already encrypted.
Status JoinConnection::shake_hands(std::span<const std::byte>& bytes) {
    while (!bytes.empty() && !handshake_->is_done()) {
        const auto size = std::min(bytes.size(), handshake_->needed());
        const auto status = handshake_->feed(bytes.first(size));
        writer_.send(handshake_->take_output());
        HVD_TRY_STATUS(status);
        bytes = bytes.subspan(size);
    }
    if (handshake_->is_done()) {
        encryption_ = handshake_->encryption();
        handshake_.reset();
        state_ = State::authenticated;
    }
    return ok();
}

Status JoinConnection::take_plain(std::vector<std::byte> plain) {
    if (is_attached_) {
        if (!plain.empty()) {
            handlers_.on_bytes(plain);
        }
        return ok();
    }
    kept_.insert(kept_.end(), plain.begin(), plain.end());
    if (kept_.size() > kMaxKept) {
        return broken("it said more than an agent has to say before the job begins");
    }
    if (state_ == State::authenticated) {
        HVD_TRY(const auto introduction, wire::take_introduction(kept_));
        if (introduction) {
            timeout_.cancel();
            events_.on_introduced(*introduction);  // which welcomes or refuses it
        }
    }
    if (state_ != State::agent) {
        return ok();
    }
    facts_reader_.feed(std::span(kept_).subspan(peeked_));
    peeked_ = kept_.size();
    HVD_TRY(auto message, facts_reader_.next());
    while (message) {
        if (const auto* facts = std::get_if<wire::Facts>(&*message)) {
            events_.on_facts(facts->facts);
        }
        HVD_TRY(message, facts_reader_.next());
    }
    return ok();
}

void JoinConnection::welcome() {
    state_ = State::agent;
    writer_.send(encryption_->encryptor.encrypt(wire::encode(wire::JoinAnswer{})));
}

void JoinConnection::refuse(const std::string& why) {
    state_ = State::refused;
    error_ = broken(why);
    writer_.send(encryption_->encryptor.encrypt(wire::encode(wire::JoinAnswer{.error = why})));
    close();
    timeout_.set(io_.in(kRefusalTimeout), [this] { stream_ended(std::nullopt); });
}

void JoinConnection::hold() {
    events_ = {.on_introduced = [](const wire::Introduction& /*unused*/) {},
               .on_facts = [](const HostFacts& /*unused*/) {},
               .on_failed = [](const Error& /*unused*/) {}};
}

void JoinConnection::attach(AgentChannel::Handlers handlers) {
    handlers_ = std::move(handlers);
    soon_.set(io_.in(kNow), [this] { deliver(); });
}

/// Delivers the bytes that came before `attach`.
void JoinConnection::deliver() {
    is_attached_ = true;
    const auto kept = std::exchange(kept_, {});
    if (!kept.empty()) {
        handlers_.on_bytes(kept);
    }
    if (state_ == State::over) {
        handlers_.on_end(std::move(error_));
    }
}

void JoinConnection::send(std::span<const std::byte> plain) {
    if (state_ == State::agent && !encryption_->encryptor.is_finished()) {
        writer_.send(encryption_->encryptor.encrypt(plain));
    }
}

void JoinConnection::close() {
    if (encryption_) {
        writer_.send(encryption_->encryptor.finish());
    }
    writer_.when_sent([socket = socket_] { (void)::shutdown(socket, SHUT_WR); });
}

void JoinConnection::stream_ended(std::optional<Error> error) {
    if (state_ == State::over) {
        return;
    }
    if (!error && encryption_ && !encryption_->decryptor.has_ended()) {
        error = wire::stream_cut();
    }
    if (is_attached_) {
        state_ = State::over;
        writer_.close();
        handlers_.on_end(std::move(error));
        return;
    }
    fail(error_  ? *error_
         : error ? *std::move(error)
                 : Error{Errc::unavailable, "it closed the connection"});
}

/// A connection that has not been attached is reported to the listener, an attached one to its
/// channel's owner.
void JoinConnection::fail(Error error) {
    if (std::exchange(state_, State::over) == State::over) {
        return;
    }
    timeout_.cancel();
    // Queued messages, such as the verdict on a wrong token, go first.
    close();
    if (is_attached_) {
        handlers_.on_end(std::move(error));
        return;
    }
    error_ = std::move(error);
    events_.on_failed(*error_);
}

}  // namespace hvd::launch
