// SPDX-License-Identifier: Apache-2.0
//
// What a meeting point knows: who has come, and what they have left. Without I/O.
#pragma once

#include "collectives/meeting/messages.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::meeting {

class Book {
public:
    explicit Book(int size) : guests_(static_cast<std::size_t>(size)) {}

    /// A reply for a visitor. `visitor` is any number that is the same for one connection.
    struct Letter {
        std::size_t visitor = 0;
        Reply reply{};

        friend bool operator==(const Letter&, const Letter&) = default;
    };

    /// What is to be sent now, perhaps to others.
    [[nodiscard]] std::vector<Letter> on(std::size_t visitor, const Request& request);

    /// Forgets what the visitor waits for, but not who it was.
    void on_leave(std::size_t visitor);

    [[nodiscard]] bool has_come(std::size_t visitor) const { return ranks_.contains(visitor); }
    [[nodiscard]] bool is_complete() const noexcept { return come_ == guests_.size(); }

    /// "2,5-7"; empty when all have come.
    [[nodiscard]] std::string absent() const;

    /// For everybody who has come, when the point closes before all have.
    [[nodiscard]] std::vector<Letter> farewell() const;

private:
    struct Waiting {
        std::size_t visitor = 0;
        std::uint32_t request = 0;
    };

    [[nodiscard]] std::optional<std::string> refuse(const Guest& guest) const;
    [[nodiscard]] std::vector<Letter> enter(std::size_t visitor, const Guest& guest);
    [[nodiscard]] std::vector<Letter> leave_value(const std::string& key,
                                                  std::vector<std::byte> value);
    [[nodiscard]] std::vector<Letter> put(std::size_t visitor, const Put& put);

    std::vector<std::optional<Guest>> guests_;  // by rank
    std::size_t come_ = 0;
    std::map<std::size_t, int> ranks_;  // by visitor
    std::map<std::string, std::vector<std::byte>, std::less<>> values_;
    std::map<std::string, std::vector<Waiting>, std::less<>> waiting_;  // by key
};

}  // namespace hvd::coll::meeting
