// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/key_store.hpp"

#include <utility>

namespace hvd::launch {

// NOLINTNEXTLINE(performance-unnecessary-value-param): moved from, unless the key is there
KeyStore::Stored KeyStore::put(const std::string& key, std::vector<std::byte> value) {
    const auto [entry, is_new] = values_.try_emplace(key, std::move(value));
    if (!is_new && entry->second != value) {
        return {.error = "key '" + key + "' has another value already", .now_served = {}};
    }
    const auto waiting = waiting_.extract(key);
    return {.error = {},
            .now_served = waiting.empty() ? std::vector<Asker>{} : std::move(waiting.mapped())};
}

const std::vector<std::byte>* KeyStore::get(const std::string& key, const Asker& asker) {
    const auto entry = values_.find(key);
    if (entry == values_.end()) {
        waiting_[key].push_back(asker);
        return nullptr;
    }
    return &entry->second;
}

}  // namespace hvd::launch
