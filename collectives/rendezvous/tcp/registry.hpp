// SPDX-License-Identifier: Apache-2.0
//
// The state of a store server: the members that have joined, and the values. Without I/O.
#pragma once

#include "collectives/rendezvous/tcp/messages.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::store {

class Registry {
public:
    explicit Registry(int size) : members_(static_cast<std::size_t>(size)) {}

    /// A reply for a connection. `connection` is any number that is the same for one connection.
    struct AddressedReply {
        std::size_t connection = 0;
        Reply reply{};

        friend bool operator==(const AddressedReply&, const AddressedReply&) = default;
    };

    /// The replies to send now, perhaps to other connections.
    [[nodiscard]] std::vector<AddressedReply> on(std::size_t connection, const Request& request);

    /// Forgets what the connection waits for, but not its rank.
    void on_leave(std::size_t connection);

    [[nodiscard]] bool has_joined(std::size_t connection) const {
        return ranks_.contains(connection);
    }
    [[nodiscard]] bool is_complete() const noexcept { return joined_ == members_.size(); }

    /// "2,5-7"; empty when all have joined.
    [[nodiscard]] std::string absent() const;

    /// To all members, when the server stops before all ranks have joined.
    [[nodiscard]] std::vector<AddressedReply> closing_replies() const;

private:
    struct Waiting {
        std::size_t connection = 0;
        std::uint32_t request = 0;
    };

    [[nodiscard]] std::optional<std::string> refuse(const Member& member) const;
    [[nodiscard]] std::vector<AddressedReply> enter(std::size_t connection, const Member& member);
    [[nodiscard]] std::vector<AddressedReply> leave_value(const std::string& key,
                                                          std::vector<std::byte> value);
    [[nodiscard]] std::vector<AddressedReply> put(std::size_t connection, const Put& put);

    std::vector<std::optional<Member>> members_;  // by rank
    std::size_t joined_ = 0;
    std::map<std::size_t, int> ranks_;  // by connection
    std::map<std::string, std::vector<std::byte>, std::less<>> values_;
    std::map<std::string, std::vector<Waiting>, std::less<>> waiting_;  // by key
};

}  // namespace hvd::coll::store
