// SPDX-License-Identifier: Apache-2.0
#include "collectives/meeting/book.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace hvd::coll::meeting {

std::string Book::absent() const {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < guests_.size(); ++rank) {
        if (!guests_[rank]) {
            ranks.push_back(static_cast<int>(rank));
        }
    }
    return format_ranges(ranks);
}

std::vector<Book::Letter> Book::farewell() const {
    std::vector<Letter> letters;
    for (const auto& [visitor, rank] : ranks_) {
        letters.push_back({visitor, Failed{.request = 0,
                                           .why = "these ranks have not come: " + absent() +
                                                  "; who kept the meeting point waits no longer",
                                           .code = Errc::timed_out}});
    }
    return letters;
}

std::optional<std::string> Book::refuse(const Guest& guest) const {
    const auto size = static_cast<int>(guests_.size());
    if (guest.size != size) {
        return describe(guest) + " was told that there are " + std::to_string(guest.size) +
               " ranks, and who keeps the meeting point " + std::to_string(size);
    }
    if (guest.rank < 0 || guest.rank >= size) {
        return "there is no rank " + std::to_string(guest.rank) + " of " + std::to_string(size);
    }
    if (const auto& other = guests_[static_cast<std::size_t>(guest.rank)]) {
        return describe(*other) + " and " + describe(guest) +
               " are both told to be this rank; HOROVOD_LAUNCHER names the launcher that counts";
    }
    return {};
}

std::vector<Book::Letter> Book::on(std::size_t visitor, const Request& request) {
    if (const auto* guest = std::get_if<Guest>(&request)) {
        return enter(visitor, *guest);
    }
    if (!has_come(visitor)) {
        return {{visitor, Failed{.request = 0, .why = "who is there?"}}};
    }
    if (const auto* put_request = std::get_if<Put>(&request)) {
        return put(visitor, *put_request);
    }
    if (const auto* get = std::get_if<Get>(&request)) {
        const auto value = values_.find(get->key);
        if (value != values_.end()) {
            return {{visitor, Value{.request = get->request, .bytes = value->second}}};
        }
        waiting_[get->key].push_back({visitor, get->request});
        return {};
    }
    const auto text = absent();
    const auto bytes = std::as_bytes(std::span(text));
    return {{visitor, Value{.request = std::get<Absent>(request).request,
                            .bytes = {bytes.begin(), bytes.end()}}}};
}

std::vector<Book::Letter> Book::enter(std::size_t visitor, const Guest& guest) {
    if (auto why = refuse(guest)) {
        return {{visitor, Failed{.request = 0, .why = std::move(*why)}}};
    }
    guests_[static_cast<std::size_t>(guest.rank)] = guest;
    ranks_.emplace(visitor, guest.rank);
    ++come_;
    if (!is_complete()) {
        return {};
    }
    std::vector<Guest> all;
    for (const auto& one : guests_) {
        all.push_back(*one);
    }
    return leave_value(std::string(kRollKey), encode_roll(all));
}

std::vector<Book::Letter> Book::put(std::size_t visitor, const Put& put) {
    const auto value = values_.find(put.key);
    if (value != values_.end() && value->second != put.value) {
        return {{visitor, Failed{.request = put.request,
                                 .why = "\"" + put.key + "\" already has another value"}}};
    }
    auto letters = leave_value(put.key, put.value);
    letters.push_back({visitor, Value{.request = put.request}});
    return letters;
}

std::vector<Book::Letter> Book::leave_value(const std::string& key, std::vector<std::byte> value) {
    std::vector<Letter> letters;
    if (const auto waiting = waiting_.find(key); waiting != waiting_.end()) {
        for (const auto& one : waiting->second) {
            letters.push_back({one.visitor, Value{.request = one.request, .bytes = value}});
        }
        waiting_.erase(waiting);
    }
    values_.insert_or_assign(key, std::move(value));
    return letters;
}

void Book::on_leave(std::size_t visitor) {
    for (auto& [key, waiting] : waiting_) {
        std::erase_if(waiting, [&](const Waiting& one) { return one.visitor == visitor; });
    }
    ranks_.erase(visitor);
}

}  // namespace hvd::coll::meeting
