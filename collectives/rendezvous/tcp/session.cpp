// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/session.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/bytes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sodium.h>

namespace hvd::coll::store {
namespace {

constexpr std::string_view kMagic = "HVDSTOR\n";
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kMaxGreeting = 8 << 10;  // before the proof
constexpr std::size_t kMaxMessage = 16 << 20;  // the membership of many ranks
constexpr std::size_t kHeadBytes = 5;          // length and type
constexpr std::size_t kSealBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;
constexpr std::size_t kNonceBytes = crypto_aead_chacha20poly1305_ietf_NPUBBYTES;
static_assert(crypto_kx_PUBLICKEYBYTES == 32 && crypto_kx_SESSIONKEYBYTES == 32);

const unsigned char* raw(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string_view describe(Authentication kind) noexcept {
    switch (kind) {
        case Authentication::none: return "nothing";
        case Authentication::key: return "a key";
        case Authentication::munge: return "munge";
    }
    return "something unknown";
}

std::array<unsigned char, kNonceBytes> nonce_of(std::uint64_t count) noexcept {
    std::array<unsigned char, kNonceBytes> nonce{};
    std::memcpy(nonce.data(), &count, sizeof count);
    return nonce;
}

std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char character) { return character < ' ' || character >= 0x7f; }, '?');
    return text;
}

/// An error that another attempt cannot mend keeps its code.
Error refusal(std::span<const std::byte> body) {
    ByteReader reader(body);
    const auto code = reader.number<std::uint8_t>();
    const bool is_final = code == static_cast<std::uint8_t>(Errc::invalid_argument) ||
                          code == static_cast<std::uint8_t>(Errc::unsupported);
    const auto text = reader.rest();
    return {is_final ? Errc::invalid_argument : Errc::unavailable,
            "it says: " + printable({reinterpret_cast<const char*>(text.data()), text.size()})};
}

}  // namespace

Session::Session(Side side, Authenticator& authenticator, std::string job)
    : side_(side),
      authenticator_(authenticator),
      job_(std::move(job)),
      state_(side == Side::client ? State::expect_answer : State::expect_hello) {
    HVD_ASSERT(sodium_init() >= 0, "libsodium has no random numbers");
    (void)crypto_kx_keypair(public_.data(), secret_.data());
    const auto own = std::as_bytes(std::span(public_));
    std::ranges::copy(own, (side == Side::client ? guest_ : host_).begin());
    if (side == Side::client) {
        ByteWriter hello;
        hello.raw(bytes_of(kMagic));
        hello.number(kVersion);
        hello.number(authenticator_.kind());
        hello.raw(own);
        hello.text(job_);
        put(Frame::hello, hello.bytes());
    }
}

std::vector<std::byte> Session::take_output() {
    return std::exchange(out_, {});
}

void Session::put(Frame type, std::span<const std::byte> body) {
    ByteWriter writer;
    writer.number(static_cast<std::uint32_t>(body.size()));
    writer.number(type);
    writer.raw(body);
    out_.insert(out_.end(), writer.bytes().begin(), writer.bytes().end());
}

/// The server tells an unauthenticated peer why it is refused.
Error Session::fail(Error error) {
    state_ = State::failed;
    if (side_ == Side::server) {
        ByteWriter refusal;
        refusal.number(static_cast<std::uint8_t>(error.code));
        refusal.raw(bytes_of(error.message));
        put(Frame::refusal, refusal.bytes());
    }
    return error;
}

Status Session::feed(std::span<const std::byte> bytes) {
    if (state_ == State::failed) {
        return Error{Errc::aborted, "the connection has failed before"};
    }
    in_.insert(in_.end(), bytes.begin(), bytes.end());
    std::size_t used = 0;
    while (in_.size() - used >= kHeadBytes) {
        ByteReader head(std::span<const std::byte>(in_).subspan(used, kHeadBytes));
        const std::size_t size = head.number<std::uint32_t>();
        const auto type = head.number<Frame>();
        if (size > (is_ready() ? kMaxMessage : kMaxGreeting)) {
            return fail(not_a_peer());
        }
        if (in_.size() - used < kHeadBytes + size) {
            break;
        }
        const auto body = std::span<const std::byte>(in_).subspan(used + kHeadBytes, size);
        if (auto taken = take(type, body); !taken) {
            return fail(std::move(taken).error());
        }
        used += kHeadBytes + size;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
    return ok();
}

/// A client may have connected to another program, and the next address may be right.
Error Session::not_a_peer() const {
    return {side_ == Side::client ? Errc::unavailable : Errc::invalid_argument,
            "it does not speak this protocol"};
}

Status Session::take(Frame type, std::span<const std::byte> body) {
    if (type == Frame::refusal && side_ == Side::client) {
        return refusal(body);
    }
    if (type == Frame::hello && state_ == State::expect_hello) {
        return take_hello(body);
    }
    if (type == Frame::answer && state_ == State::expect_answer) {
        return take_answer(body);
    }
    if (type == Frame::proof && state_ == State::expect_proof) {
        return take_proof(body);
    }
    if (type == Frame::encrypted && state_ == State::ready) {
        messages_.emplace_back(body.begin(), body.end());
        return ok();
    }
    return not_a_peer();
}

Status Session::take_hello(std::span<const std::byte> body) {
    ByteReader reader(body);
    const auto magic = reader.raw(kMagic.size());
    const auto version = reader.number<std::uint16_t>();
    const auto kind = reader.number<Authentication>();
    const auto member = reader.raw(kKeyBytes);
    const auto job = reader.text();
    if (!std::ranges::equal(magic, bytes_of(kMagic)) || !reader.finish("hello")) {
        return not_a_peer();
    }
    if (version != kVersion) {
        return Error{Errc::unsupported, "it speaks version " + std::to_string(version) +
                                            " of the protocol, not " + std::to_string(kVersion)};
    }
    if (job != job_) {
        return Error{Errc::unavailable,
                     "this is job " + printable(job_) + ", not " + printable(job)};
    }
    if (kind != authenticator_.kind()) {
        return Error{Errc::invalid_argument, "one end authenticates itself by " +
                                                 std::string(describe(authenticator_.kind())) +
                                                 ", the other by " + std::string(describe(kind)) +
                                                 ": all ranks need the same munge or "
                                                 "HOROVOD_JOB_KEY_FILE"};
    }
    std::ranges::copy(member, guest_.begin());
    HVD_TRY_STATUS(derive_keys(member));
    HVD_TRY(const auto proof, authenticator_.prove(statement(Side::server)));
    ByteWriter answer;
    answer.raw(host_);
    answer.raw(proof);
    put(Frame::answer, answer.bytes());
    state_ = State::expect_proof;
    return ok();
}

Status Session::take_answer(std::span<const std::byte> body) {
    if (body.size() < kKeyBytes) {
        return not_a_peer();
    }
    std::ranges::copy(body.first(kKeyBytes), host_.begin());
    HVD_TRY_STATUS(derive_keys(body.first(kKeyBytes)));
    HVD_TRY_STATUS(authenticator_.check(statement(Side::server), body.subspan(kKeyBytes)));
    HVD_TRY(const auto proof, authenticator_.prove(statement(Side::client)));
    put(Frame::proof, proof);
    state_ = State::ready;
    return ok();
}

Status Session::take_proof(std::span<const std::byte> body) {
    HVD_TRY_STATUS(authenticator_.check(statement(Side::client), body));
    state_ = State::ready;
    return ok();
}

Status Session::derive_keys(std::span<const std::byte> peer) {
    const auto derive =
        side_ == Side::client ? crypto_kx_client_session_keys : crypto_kx_server_session_keys;
    if (derive(receive_.data(), transmit_.data(), public_.data(), secret_.data(), raw(peer)) != 0) {
        return Error{Errc::invalid_argument, "its public key is none"};
    }
    return ok();
}

std::vector<std::byte> Session::statement(Side speaker) const {
    ByteWriter said;
    said.raw(bytes_of(speaker == Side::server ? "horovod store: server" : "horovod store: client"));
    said.raw(guest_);
    said.raw(host_);
    said.text(job_);
    std::vector<std::byte> hash(crypto_generichash_BYTES);
    (void)crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                             raw(said.bytes()), said.bytes().size(), nullptr, 0);
    return hash;
}

void Session::send(std::span<const std::byte> message) {
    HVD_ASSERT(is_ready(), "nothing is sent before the proof");
    std::vector<std::byte> encrypted(message.size() + kSealBytes);
    const auto nonce = nonce_of(sent_++);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(
        reinterpret_cast<unsigned char*>(encrypted.data()), nullptr, raw(message), message.size(),
        nullptr, 0, nullptr, nonce.data(), transmit_.data());
    put(Frame::encrypted, encrypted);
}

Result<std::optional<std::vector<std::byte>>> Session::next() {
    if (next_message_ == messages_.size()) {
        messages_.clear();
        next_message_ = 0;
        return std::optional<std::vector<std::byte>>{};
    }
    const auto& encrypted = messages_[next_message_++];
    std::vector<std::byte> message(std::max(encrypted.size(), kSealBytes) - kSealBytes);
    const auto nonce = nonce_of(received_++);
    if (encrypted.size() < kSealBytes ||
        crypto_aead_chacha20poly1305_ietf_decrypt(
            reinterpret_cast<unsigned char*>(message.data()), nullptr, nullptr, raw(encrypted),
            encrypted.size(), nullptr, 0, nonce.data(), receive_.data()) != 0) {
        state_ = State::failed;
        return Error{Errc::invalid_argument, "a message was tampered with"};
    }
    return std::optional(std::move(message));
}

}  // namespace hvd::coll::store
