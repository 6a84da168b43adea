// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/join.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/bytes.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sodium.h>

namespace hvd::launch::wire {
namespace {

constexpr std::string_view kMagic = "HVDJOIN2";  // its last character is the version
constexpr std::size_t kNonceBytes = sizeof(JoinNonce);
constexpr std::size_t kMacBytes = sizeof(Key);
constexpr std::size_t kGreetingBytes = kMagic.size() + kNonceBytes;
constexpr std::size_t kProofBytes = kGreetingBytes + kMacBytes;
constexpr std::size_t kVerdictBytes = 1 + kMacBytes;
constexpr std::size_t kLeastToken = 32;  // characters
constexpr std::size_t kMaxMessage = 4096;

constexpr std::string_view kJoinerProof = "horovod join: proof of who joins";
constexpr std::string_view kListenerProof = "horovod join: proof of who listens";
constexpr std::string_view kToLauncher = "horovod join: key to the launcher";
constexpr std::string_view kToAgent = "horovod join: key to the agent";

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

const unsigned char* raw(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

bool is_equal(const Key& expected, std::span<const std::byte> given) noexcept {
    return given.size() == expected.size() &&
           sodium_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

template <class Message>
Result<std::optional<Message>> take_message(std::vector<std::byte>& plain,
                                            void (*read)(ByteReader&, Message&)) {
    std::uint32_t length = 0;
    if (plain.size() < sizeof length) {
        return std::optional<Message>{};
    }
    std::memcpy(&length, plain.data(), sizeof length);
    if (length > kMaxMessage) {
        return Error{Errc::invalid_argument, "a first message of " + std::to_string(length) +
                                                 " bytes (at most " + std::to_string(kMaxMessage) +
                                                 " are allowed)"};
    }
    if (plain.size() < sizeof length + length) {
        return std::optional<Message>{};
    }
    ByteReader reader(std::span<const std::byte>(plain).subspan(sizeof length, length));
    Message message;
    read(reader, message);
    // Fields that a later version may have added are ignored.
    if (reader.failed()) {
        return Error{Errc::invalid_argument, "a first message that is malformed"};
    }
    plain.erase(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(sizeof length + length));
    return std::optional<Message>{std::move(message)};
}

std::vector<std::byte> as_message(const ByteWriter& body) {
    ByteWriter message;
    message.number(static_cast<std::uint32_t>(body.bytes().size()));
    message.raw(body.bytes());
    return message.take();
}

}  // namespace

std::string make_join_token() {
    std::array<unsigned char, 32> bytes{};
    randombytes_buf(bytes.data(), bytes.size());
    std::string text(2 * bytes.size() + 1, '\0');
    (void)sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
    text.pop_back();
    return text;
}

JoinNonce make_join_nonce() {
    JoinNonce nonce{};
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

Result<Key> join_key(std::string_view text) {
    const auto token = trim(text);
    if (token.size() < kLeastToken) {
        return Error{Errc::invalid_argument,
                     "the token has " + std::to_string(token.size()) + " characters, but needs " +
                         std::to_string(kLeastToken) +
                         ", so that nobody can try them all; make one with `openssl rand -hex 32`"};
    }
    Key key{};
    const auto bytes = bytes_of(token);
    (void)crypto_generichash(reinterpret_cast<unsigned char*>(key.data()), key.size(), raw(bytes),
                             bytes.size(), nullptr, 0);
    return key;
}

// ---- JoinHandshake ----

JoinHandshake::JoinHandshake(const Key& token, const JoinNonce& nonce, State state)
    : token_(token), state_(state), is_listener_(state == State::expect_proof) {
    // Picks the fastest code for this CPU; without it everything works, only slower.
    [[maybe_unused]] const int is_ready = sodium_init();
    (is_listener_ ? listeners_ : joiners_) = nonce;
}

JoinHandshake JoinHandshake::listening(const Key& token, const JoinNonce& nonce) {
    JoinHandshake handshake(token, nonce, State::expect_proof);
    ByteWriter greeting;
    greeting.raw(bytes_of(kMagic));
    greeting.raw(nonce);
    handshake.out_ = greeting.take();
    return handshake;
}

JoinHandshake JoinHandshake::joining(const Key& token, const JoinNonce& nonce) {
    return {token, nonce, State::expect_greeting};
}

std::vector<std::byte> JoinHandshake::take_output() {
    return std::exchange(out_, {});
}

std::size_t JoinHandshake::expected() const noexcept {
    switch (state_) {
        case State::expect_greeting: return kGreetingBytes;
        case State::expect_proof: return kProofBytes;
        case State::expect_verdict: return kVerdictBytes;
        case State::done:
        case State::failed: return 0;
    }
    return 0;
}

std::size_t JoinHandshake::needed() const noexcept {
    return expected() - std::min(expected(), in_.size());
}

Status JoinHandshake::feed(std::span<const std::byte> bytes) {
    HVD_ASSERT(bytes.size() <= needed(), "what follows a handshake is encrypted");
    in_.insert(in_.end(), bytes.begin(), bytes.end());
    auto status = state_ == State::expect_verdict ? ok() : check_magic();
    if (status && needed() == 0 && !in_.empty()) {
        status = take();
    }
    if (!status) {
        state_ = State::failed;
        in_.clear();
    }
    return status;
}

/// As soon as a byte is wrong: garbage is not waited for.
Status JoinHandshake::check_magic() const {
    const auto size = std::min(in_.size(), kMagic.size());
    const std::string_view begin(reinterpret_cast<const char*>(in_.data()), size);
    if (begin == kMagic.substr(0, size)) {
        return ok();
    }
    if (size == kMagic.size() && begin.starts_with(kMagic.substr(0, size - 1))) {
        const char version = begin.back();
        return Error{Errc::unsupported, std::string("the other end joins by version '") +
                                            (version > ' ' && version < 0x7f ? version : '?') +
                                            "' of the protocol, this one by '" + kMagic.back() +
                                            "': use one version of horovod"};
    }
    return Error{Errc::invalid_argument, "no horovodrun is at the other end"};
}

Status JoinHandshake::take() {
    const auto message = std::exchange(in_, {});
    ByteReader reader(message);
    const auto read_nonce = [&reader](JoinNonce& nonce) {
        (void)reader.raw(kMagic.size());
        std::ranges::copy(reader.raw(kNonceBytes), nonce.begin());
    };
    ByteWriter reply;
    switch (state_) {
        case State::expect_greeting: {
            read_nonce(listeners_);
            reply.raw(bytes_of(kMagic));
            reply.raw(joiners_);
            reply.raw(derive(kJoinerProof));
            out_ = reply.take();
            state_ = State::expect_verdict;
            return ok();
        }
        case State::expect_proof: {
            read_nonce(joiners_);
            const bool is_right = is_equal(derive(kJoinerProof), reader.raw(kMacBytes));
            reply.number(static_cast<std::uint8_t>(is_right));
            reply.raw(is_right ? derive(kListenerProof) : Key{});
            out_ = reply.take();
            if (!is_right) {
                return Error{Errc::invalid_argument, "it has another token"};
            }
            state_ = State::done;
            return ok();
        }
        case State::expect_verdict: {
            if (reader.number<std::uint8_t>() != 1) {
                return Error{Errc::invalid_argument, "horovodrun there has another token"};
            }
            if (!is_equal(derive(kListenerProof), reader.raw(kMacBytes))) {
                return Error{Errc::invalid_argument,
                             "the other end does not know the token, so it is no horovodrun of "
                             "this job"};
            }
            state_ = State::done;
            return ok();
        }
        case State::done:
        case State::failed: break;
    }
    return ok();
}

Key JoinHandshake::derive(std::string_view label) const {
    ByteWriter input;
    input.text(label);
    input.raw(listeners_);
    input.raw(joiners_);
    Key derived{};
    (void)crypto_generichash(reinterpret_cast<unsigned char*>(derived.data()), derived.size(),
                             raw(input.bytes()), input.bytes().size(), raw(token_), token_.size());
    return derived;
}

SessionKeys JoinHandshake::keys() const {
    HVD_ASSERT(is_done(), "keys belong to a proven connection");
    return {.to_launcher = derive(kToLauncher), .to_agent = derive(kToAgent)};
}

Encryption JoinHandshake::encryption() const {
    const auto both = keys();
    return {.encryptor = Encryptor(is_listener_ ? both.to_agent : both.to_launcher),
            .decryptor = Decryptor(is_listener_ ? both.to_launcher : both.to_agent)};
}

// ---- first messages ----

std::vector<std::byte> encode(const Introduction& introduction) {
    ByteWriter body;
    body.text(introduction.build_id);
    body.text(introduction.name);
    body.text(introduction.hostname);
    body.number(introduction.slots);
    return as_message(body);
}

std::vector<std::byte> encode(const JoinAnswer& answer) {
    ByteWriter body;
    body.text(std::string_view(answer.error).substr(0, kMaxMessage / 2));
    return as_message(body);
}

Result<std::optional<Introduction>> take_introduction(std::vector<std::byte>& plain) {
    return take_message<Introduction>(plain, [](ByteReader& reader, Introduction& introduction) {
        introduction.build_id = reader.text();
        introduction.name = reader.text();
        introduction.hostname = reader.text();
        introduction.slots = reader.number<std::int32_t>();
    });
}

Result<std::optional<JoinAnswer>> take_join_answer(std::vector<std::byte>& plain) {
    return take_message<JoinAnswer>(
        plain, [](ByteReader& reader, JoinAnswer& answer) { answer.error = reader.text(); });
}

}  // namespace hvd::launch::wire
