// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hvd::rt {

/// The names of all process sets that operations have, or that ranks have agreed about.
///
/// Thread: its owner locks.
class NameTable {
public:
    NameTable() = default;
    ~NameTable() = default;
    NameTable(const NameTable&) = delete;
    NameTable& operator=(const NameTable&) = delete;

    /// The name, with one user more.
    [[nodiscard]] Name& intern(int process_set, std::string&& text);

    /// A name that nobody uses, and that has no cache id, is forgotten.
    void drop_user(Name& name) noexcept;

    /// Ranks no longer have a cache id for the name.
    void uncache(Name& name) noexcept;

private:
    /// A set and a text that lives in the Name.
    using Key = std::pair<int, std::string_view>;
    struct Hash {
        [[nodiscard]] std::size_t operator()(const Key& key) const noexcept {
            return std::hash<std::string_view>{}(key.second) ^
                   (static_cast<std::size_t>(key.first) * 0x9e3779b97f4a7c15);
        }
    };

    Name& look_up(int process_set, std::string&& text);
    void forget(Name& name) noexcept;

    std::unordered_map<Key, Name*, Hash> names_;
    std::deque<Name> all_;   // never freed, so that the one after another needs no search
    Name* spare_ = nullptr;  // without a text, the next one `after` it
    Name* last_ = nullptr;   // that was interned
};

}  // namespace hvd::rt
