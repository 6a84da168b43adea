// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/key_agent.hpp"

#include "launcher/remote/ssh/encoding.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace hvd::launch::ssh {
namespace {

// draft-miller-ssh-agent
constexpr char kRequestIdentities = 11;
constexpr char kIdentitiesAnswer = 12;
constexpr char kSignRequest = 13;
constexpr char kSignResponse = 14;

constexpr std::size_t kMaxAnswer = std::size_t{1} << 20;

std::string_view body_of(const std::string& answer) {
    return std::string_view(answer).substr(1);
}

}  // namespace

Result<std::unique_ptr<KeyAgent>> KeyAgent::connect(IoThread& io, const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return Error{Errc::unavailable, "ssh-agent: the path is too long: " + path};
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return Error{Errc::unavailable, system_error("ssh-agent at " + path, errno).message};
    }
    return std::make_unique<KeyAgent>(io, std::move(socket));
}

KeyAgent::KeyAgent(IoThread& io, UniqueFd socket)
    : writer_(io, UniqueFd(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0))),
      reader_(io, std::move(socket)) {
    reader_.start(
        {.on_bytes = [this](std::span<const std::byte> bytes) { receive(bytes); },
         .on_end =
             [this](const std::optional<Error>& error) {
                 fail({Errc::unavailable, error ? error->message : "ssh-agent has ended"});
             }});
}

KeyAgent::~KeyAgent() = default;

void KeyAgent::request(const std::string& body, Answer answer) {
    if (has_gone_) {
        answer(Error{Errc::unavailable, "ssh-agent has ended"});
        return;
    }
    waiting_.push_back(std::move(answer));
    const auto frame = text_field(body);
    const auto bytes = std::as_bytes(std::span(frame));
    writer_.send({bytes.begin(), bytes.end()});
}

void KeyAgent::list(std::function<void(Result<Blobs>)> done) {
    request(std::string(1, kRequestIdentities),
            [call = std::move(done)](const Result<std::string>& answer) {
                if (!answer) {
                    call(answer.error());
                    return;
                }
                FieldReader reader(body_of(*answer));
                Blobs blobs;
                const auto count =
                    answer->front() == kIdentitiesAnswer ? reader.number().value_or(0) : 0;
                for (std::uint32_t index = 0; index < count; ++index) {
                    auto blob = reader.text();
                    if (!blob || !reader.text()) {  // and its comment
                        break;
                    }
                    blobs.push_back(*std::move(blob));
                }
                call(std::move(blobs));
            });
}

void KeyAgent::sign(const std::string& blob,
                    const std::string& text,
                    std::function<void(Result<std::string>)> done) {
    request(kSignRequest + text_field(blob) + text_field(text) + number_field(0),
            [call = std::move(done)](const Result<std::string>& answer) {
                if (!answer) {
                    call(answer.error());
                    return;
                }
                auto signature = answer->front() == kSignResponse
                                     ? FieldReader(body_of(*answer)).text()
                                     : std::nullopt;
                if (signature) {
                    call(*std::move(signature));
                } else {
                    call(Error{Errc::unavailable, "ssh-agent refused to sign"});
                }
            });
}

void KeyAgent::receive(std::span<const std::byte> bytes) {
    received_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (true) {
        FieldReader reader(received_);
        const auto size = FieldReader(received_).number();
        auto answer = reader.text();
        if (size && *size > kMaxAnswer) {
            fail({Errc::unavailable,
                  "ssh-agent gave an answer of " + std::to_string(*size) + " bytes"});
            return;
        }
        if (!answer) {
            return;
        }
        received_.erase(0, sizeof(std::uint32_t) + answer->size());
        if (waiting_.empty() || answer->empty()) {
            fail({Errc::unavailable, "ssh-agent gave an answer to no question"});
            return;
        }
        const auto call = std::move(waiting_.front());
        waiting_.pop_front();
        call(*std::move(answer));
    }
}

void KeyAgent::fail(const Error& error) {
    has_gone_ = true;
    for (const auto& call : std::exchange(waiting_, {})) {
        call(error);
    }
}

}  // namespace hvd::launch::ssh
