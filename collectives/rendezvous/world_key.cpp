// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/world_key.hpp"

#include <algorithm>
#include <cerrno>

#include <sodium.h>
#include <sys/random.h>

namespace hvd::coll {

Result<WorldKey> random_world_key() {
    WorldKey key{};
    if (::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
        return system_error("getrandom", errno);
    }
    return key;
}

Result<WorldKey> share_world_key(Store& store,
                                 const std::string& prefix,
                                 int rank,
                                 Deadline deadline) {
    const auto name = prefix + "key";
    if (rank == 0) {
        HVD_TRY(const auto key, random_world_key());
        HVD_TRY_STATUS(store.put(name, key));
        return key;
    }
    const auto value = store.get(name, deadline);
    if (!value) {
        return missing_rank(0, value.error());
    }
    WorldKey key{};
    if (value->size() != key.size()) {
        return Error{Errc::internal, "the world's key in the store has a wrong length"};
    }
    std::ranges::copy(*value, key.begin());
    return key;
}

WorldKey derive_key(const WorldKey& key, std::string_view purpose) {
    static_assert(kWorldKeyBytes == crypto_auth_hmacsha256_BYTES);
    static_assert(kWorldKeyBytes == crypto_auth_hmacsha256_KEYBYTES);
    WorldKey derived{};
    (void)crypto_auth_hmacsha256(reinterpret_cast<unsigned char*>(derived.data()),
                                 reinterpret_cast<const unsigned char*>(purpose.data()),
                                 purpose.size(),
                                 reinterpret_cast<const unsigned char*>(key.data()));
    return derived;
}

std::string derive_name(const WorldKey& key, std::string_view purpose) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string name;
    for (const auto byte : derive_key(key, purpose)) {
        name += kDigits[std::to_integer<std::size_t>(byte >> 4U)];
        name += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return name;
}

}  // namespace hvd::coll
