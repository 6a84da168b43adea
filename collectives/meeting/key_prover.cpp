// SPDX-License-Identifier: Apache-2.0
#include "collectives/meeting/prover.hpp"

#include <array>

#include <sodium.h>

namespace hvd::coll::meeting {
namespace {

const unsigned char* raw(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

class Believer final : public Prover {
public:
    [[nodiscard]] ProofKind kind() const noexcept override { return ProofKind::none; }
    [[nodiscard]] Result<std::vector<std::byte>> prove(std::span<const std::byte>) override {
        return std::vector<std::byte>{};
    }
    [[nodiscard]] Status check(std::span<const std::byte>, std::span<const std::byte>) override {
        return ok();
    }
};

class KeyProver final : public Prover {
public:
    explicit KeyProver(std::span<const std::byte> secret) {
        (void)crypto_generichash(key_.data(), key_.size(), raw(secret), secret.size(), nullptr, 0);
    }

    [[nodiscard]] ProofKind kind() const noexcept override { return ProofKind::key; }

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

std::unique_ptr<Prover> create_believer() {
    return std::make_unique<Believer>();
}

std::unique_ptr<Prover> create_key_prover(std::span<const std::byte> secret) {
    return std::make_unique<KeyProver>(secret);
}

}  // namespace hvd::coll::meeting
