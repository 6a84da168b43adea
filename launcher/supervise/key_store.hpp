// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hvd::launch {

/// Where the ranks of a job leave each other small values while they start. Each key is written
/// once; who asks for one that is not there yet is answered when it comes.
class KeyStore final {
public:
    /// The rank and question that an answer belongs to.
    struct Asker {
        std::size_t host = 0;
        std::int32_t rank = 0;
        std::uint32_t request = 0;

        friend bool operator==(const Asker&, const Asker&) = default;
    };

    struct Stored {
        std::string error;              // empty: it was stored
        std::vector<Asker> now_served;  // who waited for it
    };

    /// Storing the same value again changes nothing; another one is an error.
    [[nodiscard]] Stored put(const std::string& key, std::vector<std::byte> value);

    /// The value, or null: then the asker is named by the `put` that brings it.
    [[nodiscard]] const std::vector<std::byte>* get(const std::string& key, const Asker& asker);

private:
    std::map<std::string, std::vector<std::byte>> values_;
    std::map<std::string, std::vector<Asker>> waiting_;
};

}  // namespace hvd::launch
