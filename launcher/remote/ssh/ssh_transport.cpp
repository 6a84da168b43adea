// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/ssh_transport.hpp"

#include "collectives/base/text.hpp"
#include "launcher/remote/bootstrap/filter.hpp"
#include "launcher/remote/ssh/encoding.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace hvd::launch::ssh {
namespace {

constexpr auto kNow = std::chrono::milliseconds(0);
constexpr auto kCloseLimit = std::chrono::seconds(3);
constexpr int kPiecesPerTurn = 32;  // then other hosts have theirs
constexpr std::size_t kShownErrors = 1'000;

/// Errors of the handshake that mean: no algorithm that both sides have.
bool is_about_algorithms(int code) {
    constexpr std::array kCodes{LIBSSH2_ERROR_KEX_FAILURE,  LIBSSH2_ERROR_KEY_EXCHANGE_FAILURE,
                                LIBSSH2_ERROR_HOSTKEY_INIT, LIBSSH2_ERROR_HOSTKEY_SIGN,
                                LIBSSH2_ERROR_METHOD_NONE,  LIBSSH2_ERROR_METHOD_NOT_SUPPORTED};
    return std::ranges::find(kCodes, code) != kCodes.end();
}

}  // namespace

SshTransport::SshTransport(IoThread& io,
                           SshTarget target,
                           std::shared_ptr<KeyRing> keys,
                           std::vector<std::string> lines)
    : target_(std::move(target)),
      keys_(std::move(keys)),
      lines_(std::move(lines)),
      limit_(io),
      soon_(io),
      connector_(io),
      streams_(io, [this] { drive(); }) {}

SshTransport::~SshTransport() = default;

std::string_view SshTransport::words(State state) {
    switch (state) {
        case State::resolve: return "resolving its name";
        case State::connect: return "connecting";
        case State::handshake: return "key exchange";
        case State::host_key: return "host key";
        case State::sign_in: return "authentication";
        case State::open_channel: return "opening a channel";
        case State::execute: return "starting the shell";
        case State::running: return "connection";
        case State::closing: return "closing";
        case State::over: return "end";
    }
    return "";
}

/// The remedy for a silent host.
std::string_view SshTransport::remedy(State state) {
    switch (state) {
        case State::resolve: return "; look at its spelling, at /etc/hosts and at the name server";
        case State::connect: return "; look whether it is up, and whether a firewall drops SSH";
        case State::handshake: return "; look whether it is an sshd that listens there";
        case State::sign_in: return "; an agent's key may wait for somebody's touch or password";
        case State::open_channel:
        case State::execute: return "; look whether its sshd is overloaded";
        case State::host_key:
        case State::running:
        case State::closing:
        case State::over: break;
    }
    return "";
}

void SshTransport::enter(State state) {
    if (tell_step_ && line_ == 0 && state != state_ && state < State::running) {
        tell_step_(words(state));
    }
    state_ = state;
    entered_at_ = std::chrono::steady_clock::now();
    std::chrono::milliseconds limit = target_.connect_timeout;
    if (state == State::running || state == State::over) {
        limit_.cancel();
        return;
    }
    if (state == State::closing) {
        limit_.set(Deadline::in(kCloseLimit), [this] { finish(std::nullopt); });
        return;
    }
    if (state == State::sign_in && target_.agent_socket) {
        limit = std::max(limit, target_.answer_timeout);
    }
    limit_.set(Deadline::in(limit), [this, limit] {
        if (std::exchange(is_line_over_, false)) {
            connect();
            return;
        }
        fail(Errc::timed_out, silence("within " + rounded_seconds(limit)));
    });
}

// ---- to the socket ----

void SshTransport::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    if (tell_step_) {
        tell_step_(words(State::resolve));
    }
    enter(State::resolve);
    connector_.resolve(target_.name, target_.port, target_.address_family.value_or(AF_UNSPEC),
                       [this](const Status& resolved) {
                           if (state_ != State::resolve) {
                               return;
                           }
                           if (!resolved) {
                               fail(Errc::unavailable, resolved.error().message);
                               return;
                           }
                           connect();
                       });
}

void SshTransport::connect() {
    session_.reset();
    socket_.reset();
    enter(State::connect);
    connector_.connect([this](auto socket) { connected(std::move(socket)); });
}

void SshTransport::connected(Result<std::unique_ptr<ReadyWatch>> socket) {
    if (state_ != State::connect) {
        return;
    }
    if (!socket) {
        fail(Errc::unavailable, socket.error().message);
        return;
    }
    socket_ = std::move(socket).value();
    session_ = std::make_unique<SshSession>(socket_->fd(), target_.host_key_algorithms);
    enter(State::handshake);
    drive();
}

void SshTransport::connect_again() {
    if (auto pausing = connector_.pause([this] { connect(); }); !pausing) {
        fail(Errc::unavailable, pausing.error().message);
        return;
    }
    limit_.cancel();
    session_.reset();
    socket_.reset();
    state_ = State::connect;
}

// ---- from the socket to the line ----

void SshTransport::wake() {
    if (state_ == State::over) {
        return;  // `soon_` tells the end
    }
    soon_.set(Deadline::in(kNow), [this] { drive(); });
}

void SshTransport::drive() {
    if (state_ < State::handshake || state_ == State::over || !socket_) {
        return;
    }
    // Again at every wake-up, or sshd's next packet waits for our delayed acknowledgement: 40 ms.
    const int on = 1;
    (void)::setsockopt(socket_->fd(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    int turns = 0;
    while (advance()) {
        if (++turns == kPiecesPerTurn) {
            wake();
            return;
        }
    }
    if (state_ < State::handshake || state_ == State::over || !socket_) {
        return;
    }
    socket_->wait_readable([this] { drive(); });
    if (session_->is_sending()) {
        socket_->wait_writable([this] { drive(); });
    }
}

/// One step; whether another may follow at once.
bool SshTransport::advance() {
    switch (state_) {
        case State::handshake: return take_handshake(session_->handshake());
        case State::host_key: return check_host_key();
        case State::sign_in: {
            const auto step = sign_in_->step(*session_);
            if (step == Step::failed) {
                const auto error = sign_in_->error();
                finish(Error{error.code, error.message});
                return false;
            }
            return after(step, State::open_channel);
        }
        case State::open_channel: return after(session_->open_channel(), State::execute);
        case State::execute: {
            const auto step = session_->execute(lines_[line_]);
            if (step == Step::failed && !is_line_over_) {
                // The line may have ended the connection before the server's answer was sent.
                handlers_.on_linked();
            }
            const bool goes_on = after(step, State::running);
            if (goes_on) {
                is_line_over_ = false;
                handlers_.on_linked();
            }
            return goes_on;
        }
        case State::running: return pump();
        case State::closing: {
            const auto step = session_->close_channel();
            if (step != Step::again) {
                finish(std::nullopt);
            }
            return false;
        }
        case State::resolve:
        case State::connect:
        case State::over: break;
    }
    return false;
}

bool SshTransport::after(Step step, State next) {
    if (step == Step::failed && std::exchange(is_line_over_, false)) {
        connect();  // there are servers that run one line for each connection
    } else if (step == Step::failed) {
        fail(Errc::unavailable, session_->last_error());
    } else if (step == Step::done) {
        enter(next);
    }
    return step == Step::done;
}

bool SshTransport::take_handshake(Step step) {
    if (step != Step::failed) {
        return after(step, State::host_key);
    }
    if (!session_->has_seen_banner()) {
        connect_again();
    } else if (is_about_algorithms(session_->last_code())) {
        fail(Errc::unsupported, session_->last_error());
    } else {
        fail(Errc::unavailable, session_->last_error());
    }
    return false;
}

bool SshTransport::pump() {
    switch (streams_.pump(*session_, handlers_.on_bytes)) {
        case LineStreams::Pumped::nothing: return false;
        case LineStreams::Pumped::some: return true;
        case LineStreams::Pumped::failed: fail(Errc::unavailable, session_->last_error()); break;
        case LineStreams::Pumped::ended: enter(State::closing); return true;
    }
    return false;
}

bool SshTransport::check_host_key() {
    const auto key = session_->host_key();
    const auto shown = key_type(key) + " " + fingerprint(key);
    switch (judge_host_key(target_.known_keys, key, target_.keys_without_port)) {
        case HostKeyVerdict::known:
            enter(State::sign_in);
            sign_in_ = std::make_unique<SignIn>(target_, keys_, [this] { wake(); });
            return true;
        case HostKeyVerdict::unknown:
            finish(Error{Errc::unavailable, "its host key is not known (" + shown + "); run `ssh " +
                                                target_.words_for_ssh +
                                                "` once, or add the key to " +
                                                target_.known_hosts_file});
            return false;
        case HostKeyVerdict::changed:
            if (target_.accepts_changed_key ||
                !std::ranges::all_of(target_.known_keys, [&](const KnownKey& known) {
                    return known.type == key_type(key);
                })) {
                // ssh may ask for another of the types that are known, and find that one right, or
                // warn and go on.
                fail(Errc::unsupported, "its " + shown + " is not the known one");
                return false;
            }
            finish(Error{Errc::unavailable,
                         "ITS HOST KEY IS NOT THE KNOWN ONE: it sent " + shown + ", and " +
                             target_.known_keys.front().place +
                             " has another; if the machine was set up anew, remove that line"});
            return false;
        case HostKeyVerdict::revoked: break;
    }
    finish(Error{Errc::unavailable, "its host key is revoked (" + shown + ")"});
    return false;
}

// ---- the line's streams ----

void SshTransport::send(std::vector<std::byte> bytes) {
    if (state_ != State::over && streams_.send(std::move(bytes))) {
        wake();
    }
}

void SshTransport::when_sent(std::function<void()> sent) {
    if (state_ >= State::closing) {
        sent();
        return;
    }
    streams_.when_sent(std::move(sent));
}

void SshTransport::close() {
    streams_.close();
    if (state_ == State::running) {
        wake();
    }
}

/// Over the same connection, if it stands.
bool SshTransport::try_next_line() {
    if (state_ != State::over || line_ + 1 >= lines_.size()) {
        return false;
    }
    ++line_;
    streams_.begin_line();
    if (!is_line_over_) {
        soon_.set(Deadline::in(kNow), [this] { connect(); });
        return true;
    }
    session_->forget_channel();
    enter(State::open_channel);
    wake();
    return true;
}

// ---- words ----

std::string SshTransport::route() const {
    return "ssh to " + target_.user + "@" + target_.name + " port " + std::to_string(target_.port);
}

/// "10.0.0.1: no answer within 20 s; look whether ...".
std::string SshTransport::silence(const std::string& span) const {
    return connector_.places() + "no answer " + span + std::string(remedy(state_));
}

std::string SshTransport::progress() const {
    if (state_ >= State::running) {
        return route();
    }
    const auto span = std::chrono::steady_clock::now() - entered_at_;
    return route() + ": " + std::string(words(state_)) + ": " +
           silence("for " +
                   rounded_seconds(std::chrono::duration_cast<std::chrono::milliseconds>(span)));
}

// ---- the end ----

void SshTransport::fail(Errc code, const std::string& reason) {
    finish(Error{code, std::string(words(state_)) + ": " + reason});
}

void SshTransport::finish(std::optional<Error> error) {
    if (std::exchange(state_, State::over) == State::over) {
        return;
    }
    limit_.cancel();
    is_line_over_ = !error;
    if (!error && session_) {
        if (const auto words = session_->exit_words()) {
            error = Error{Errc::unavailable, "the shell there " + *words};
        }
    }
    // A reason to use the system's ssh is printed once, with the first host that has it.
    if (error && error->code != Errc::unsupported) {
        const auto said = one_line(streams_.errors(), kShownErrors);
        error->message = route() + ": " + error->message + (said.empty() ? "" : ": " + said);
    }
    // From the loop: what called us may be in the middle of something.
    soon_.set(Deadline::in(kNow), [this, outcome = std::move(error)]() mutable {
        streams_.stop();
        handlers_.on_end(std::move(outcome));
    });
}

}  // namespace hvd::launch::ssh
