// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/registry.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace hvd::coll::store {

std::string Registry::absent() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
        if (!members_[rank]) {
            ranks.push_back(static_cast<int>(rank));
        }
    }
    return format_ranges(ranks);
}

std::vector<Registry::AddressedReply> Registry::closing_replies() const {
    std::vector<AddressedReply> replies;
    for (const auto& [connection, rank] : ranks_) {
        replies.push_back(
            {connection, Failed{.request = 0,
                                .why = "these ranks have not come: " + absent() +
                                       "; the rank that served the store waits no longer",
                                .code = Errc::timed_out}});
    }
    return replies;
}

std::optional<std::string> Registry::refuse(const Member& member) const {
    const auto size = static_cast<int>(members_.size());
    if (member.size != size) {
        return describe(member) + " was told that there are " + std::to_string(member.size) +
               " ranks, and the rank that serves the store " + std::to_string(size);
    }
    if (member.rank < 0 || member.rank >= size) {
        return "there is no rank " + std::to_string(member.rank) + " of " + std::to_string(size);
    }
    if (const auto& other = members_[static_cast<std::size_t>(member.rank)]) {
        return describe(*other) + " and " + describe(member) +
               " both claim to be this rank; HOROVOD_LAUNCHER names the launcher that counts";
    }
    return {};
}

std::vector<Registry::AddressedReply> Registry::on(std::size_t connection, const Request& request) {
    if (const auto* member = std::get_if<Member>(&request)) {
        return enter(connection, *member);
    }
    if (!has_joined(connection)) {
        return {
            {connection, Failed{.request = 0, .why = "the first request must introduce a rank"}}};
    }
    if (const auto* put_request = std::get_if<Put>(&request)) {
        return put(connection, *put_request);
    }
    if (const auto* get = std::get_if<Get>(&request)) {
        const auto value = values_.find(get->key);
        if (value != values_.end()) {
            return {{connection, Value{.request = get->request, .bytes = value->second}}};
        }
        waiting_[get->key].push_back({connection, get->request});
        return {};
    }
    const auto text = absent();
    const auto bytes = std::as_bytes(std::span(text));
    return {{connection, Value{.request = std::get<Absent>(request).request,
                               .bytes = {bytes.begin(), bytes.end()}}}};
}

std::vector<Registry::AddressedReply> Registry::enter(std::size_t connection,
                                                      const Member& member) {
    if (auto why = refuse(member)) {
        return {{connection, Failed{.request = 0, .why = std::move(*why)}}};
    }
    members_[static_cast<std::size_t>(member.rank)] = member;
    ranks_.emplace(connection, member.rank);
    ++joined_;
    if (!is_complete()) {
        return {};
    }
    std::vector<Member> all;
    for (const auto& one : members_) {
        all.push_back(*one);
    }
    return leave_value(std::string(kMembershipKey), encode_membership(all));
}

std::vector<Registry::AddressedReply> Registry::put(std::size_t connection, const Put& put) {
    const auto value = values_.find(put.key);
    if (value != values_.end() && value->second != put.value) {
        return {{connection, Failed{.request = put.request,
                                    .why = "\"" + put.key + "\" already has another value"}}};
    }
    auto replies = leave_value(put.key, put.value);
    replies.push_back({connection, Value{.request = put.request}});
    return replies;
}

std::vector<Registry::AddressedReply> Registry::leave_value(const std::string& key,
                                                            std::vector<std::byte> value) {
    std::vector<AddressedReply> replies;
    if (const auto waiting = waiting_.find(key); waiting != waiting_.end()) {
        for (const auto& one : waiting->second) {
            replies.push_back({one.connection, Value{.request = one.request, .bytes = value}});
        }
        waiting_.erase(waiting);
    }
    values_.insert_or_assign(key, std::move(value));
    return replies;
}

void Registry::on_leave(std::size_t connection) {
    for (auto& [key, waiting] : waiting_) {
        std::erase_if(waiting, [&](const Waiting& one) { return one.connection == connection; });
    }
    ranks_.erase(connection);
}

}  // namespace hvd::coll::store
