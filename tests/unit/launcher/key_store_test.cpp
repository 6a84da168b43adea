// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/key_store.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <vector>

using hvd::launch::KeyStore;

namespace {

std::vector<std::byte> value(int number) {
    return {static_cast<std::byte>(number)};
}

constexpr KeyStore::Asker kFirst{.host = 0, .rank = 1, .request = 7};
constexpr KeyStore::Asker kSecond{.host = 1, .rank = 2, .request = 7};

}  // namespace

TEST_CASE("a value that is there is given at once") {
    KeyStore store;
    CHECK(store.put("a", value(1)).error.empty());

    const auto* found = store.get("a", kFirst);

    REQUIRE(found != nullptr);
    CHECK(*found == value(1));
}

TEST_CASE("who asks too early is served by the put, once") {
    KeyStore store;
    CHECK(store.get("a", kFirst) == nullptr);
    CHECK(store.get("a", kSecond) == nullptr);
    CHECK(store.put("b", value(2)).now_served.empty());

    CHECK(store.put("a", value(1)).now_served == std::vector{kFirst, kSecond});
    CHECK(store.put("a", value(1)).now_served.empty());
}

TEST_CASE("a key is written once") {
    KeyStore store;
    CHECK(store.put("a", value(1)).error.empty());
    CHECK(store.put("a", value(1)).error.empty());
    CHECK(store.put("a", value(2)).error == "key 'a' has another value already");
    CHECK(*store.get("a", kFirst) == value(1));
}
