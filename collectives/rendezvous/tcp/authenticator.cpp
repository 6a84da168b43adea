// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/authenticator.hpp"

#include <array>

#include <sodium.h>

namespace hvd::coll::store {
namespace {

const unsigned char* raw(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

class OpenAuthenticator final : public Authenticator {
public:
    [[nodiscard]] Authentication kind() const noexcept override { return Authentication::none; }
    [[nodiscard]] Result<std::vector<std::byte>> prove(std::span<const std::byte>) override {
        return std::vector<std::byte>{};
    }
    [[nodiscard]] Status check(std::span<const std::byte>, std::span<const std::byte>) override {
        return ok();
    }
};

class KeyAuthenticator final : public Authenticator {
public:
    explicit KeyAuthenticator(std::span<const std::byte> secret) {
        (void)crypto_generichash(key_.data(), key_.size(), raw(secret), secret.size(), nullptr, 0);
    }

    [[nodiscard]] Authentication kind() const noexcept override { return Authentication::key; }

    [[nodiscard]] Result<std::vector<std::byte>> prove(
        std::span<const std::byte> statement) override {
        std::vector<std::byte> mac(crypto_auth_hmacsha256_BYTES);
        (void)crypto_auth_hmacsha256(reinterpret_cast<unsigned char*>(mac.data()), raw(statement),
                                     statement.size(), key_.data());
        return mac;
    }

    [[nodiscard]] Status check(std::span<const std::byte> statement,
                               std::span<const std::byte> proof) override {
        if (proof.size() != crypto_auth_hmacsha256_BYTES ||
            crypto_auth_hmacsha256_verify(raw(proof), raw(statement), statement.size(),
                                          key_.data()) != 0) {
            return Error{Errc::invalid_argument, "it does not know the job's key"};
        }
        return ok();
    }

private:
    std::array<unsigned char, crypto_auth_hmacsha256_KEYBYTES> key_{};
};

}  // namespace

std::unique_ptr<Authenticator> create_open_authenticator() {
    return std::make_unique<OpenAuthenticator>();
}

std::unique_ptr<Authenticator> create_key_authenticator(std::span<const std::byte> secret) {
    return std::make_unique<KeyAuthenticator>(secret);
}

Result<std::unique_ptr<Authenticator>> create_authenticator(const Credentials& credentials) {
    switch (credentials.kind) {
        case Authentication::none: return create_open_authenticator();
        case Authentication::key: return create_key_authenticator(credentials.secret);
        case Authentication::munge: return create_munge_authenticator(credentials.munge_socket);
    }
    return Error{Errc::internal, "unknown kind of proof"};
}

}  // namespace hvd::coll::store
