// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/readiness.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {
namespace {

void add(AnnouncedGroup& group, int rank, const Announcement& announcement) {
    group.ranks.push_back(rank);
    group.announcements.push_back(announcement);
}

}  // namespace

std::size_t ReadinessTable::place_of(int rank) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
}

void ReadinessTable::erase(Key key) {
    const auto entry = entries_.find(key);
    for (const auto& member : entry->second.announcement.members) {
        const auto row = rows_.find(member.name);
        if (row == rows_.end()) {
            continue;  // named twice
        }
        row->second.keys[entry->second.place] = kNothing;
        if (std::ranges::all_of(row->second.keys, [](Key each) { return each == kNothing; })) {
            rows_.erase(row);
        }
    }
    entries_.erase(entry);
}

void ReadinessTable::announce(int rank, Announcement announcement, Waiting::TimePoint now) {
    const auto place = place_of(rank);
    for (const auto& member : announcement.members) {
        const auto row = rows_.find(member.name);
        if (row != rows_.end() && row->second.keys[place] != kNothing) {
            erase(row->second.keys[place]);
        }
    }
    const Key key = ++last_key_;
    for (const auto& member : announcement.members) {
        auto& row = rows_[member.name];
        row.keys.resize(ranks_.size(), kNothing);
        row.keys[place] = key;
    }
    const auto since = now - announcement.waited;
    entries_.emplace(
        key, Entry{.place = place, .announcement = std::move(announcement), .since = since});
}

bool ReadinessTable::is_complete(const Row& row, std::span<const int> absent) const {
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
        if (row.keys[place] == kNothing &&
            std::ranges::find(absent, ranks_[place]) == absent.end()) {
            return false;
        }
    }
    return true;
}

bool ReadinessTable::has_same_members(const Row& row) const {
    const std::vector<Member>* first = nullptr;
    for (const Key key : row.keys) {
        if (key == kNothing) {
            continue;
        }
        const auto& members = entries_.at(key).announcement.members;
        if (first != nullptr &&
            !std::ranges::equal(*first, members, {}, &Member::name, &Member::name)) {
            return false;
        }
        first = &members;
    }
    return true;
}

std::vector<ReadinessTable::Key> ReadinessTable::connected_with(const Row& row) const {
    std::vector<Key> keys;
    const auto add = [&](const Row& each) {
        for (const Key key : each.keys) {
            if (key != kNothing && std::ranges::find(keys, key) == keys.end()) {
                keys.push_back(key);
            }
        }
    };
    add(row);
    // NOLINTNEXTLINE(modernize-loop-convert): `add` appends to what is walked
    for (std::size_t index = 0; index < keys.size(); ++index) {
        for (const auto& member : entries_.at(keys[index]).announcement.members) {
            add(rows_.at(member.name));
        }
    }
    return keys;
}

/// The key of an announcement of `name` in which all tensors have failed elsewhere; kNothing where
/// there is none. Forgets the failures of the announcements that it looks at.
ReadinessTable::Key ReadinessTable::find_follower(const std::string& name) {
    const auto found = mismatched_.find(name);
    if (found == mismatched_.end()) {
        return kNothing;
    }
    const auto& row = rows_.at(name);
    for (std::size_t place = 0; place < ranks_.size(); ++place) {
        if (row.keys[place] == kNothing || !found->second[place]) {
            continue;
        }
        const auto& members = entries_.at(row.keys[place]).announcement.members;
        const bool follows = std::ranges::all_of(members, [&](const Member& member) {
            const auto its = mismatched_.find(member.name);
            return its != mismatched_.end() && its->second[place];
        });
        for (const auto& member : members) {
            if (const auto its = mismatched_.find(member.name); its != mismatched_.end()) {
                its->second[place] = false;
            }
        }
        if (follows) {
            return row.keys[place];
        }
    }
    return kNothing;
}

/// Members that have announced nothing with the names of the group are going to.
void ReadinessTable::expect_counterparts(const AnnouncedGroup& group) {
    for (const auto& announcement : group.announcements) {
        for (const auto& member : announcement.members) {
            mismatched_.insert_or_assign(member.name, Places(ranks_.size(), true));
        }
    }
    for (std::size_t index = 0; index < group.ranks.size(); ++index) {
        for (const auto& member : group.announcements[index].members) {
            mismatched_.at(member.name)[place_of(group.ranks[index])] = false;
        }
    }
    std::erase_if(mismatched_, [](const auto& each) {
        return std::ranges::find(each.second, true) == each.second.end();
    });
}

std::optional<AnnouncedGroup> ReadinessTable::take_if_complete(const std::string& name,
                                                               std::span<const int> absent) {
    const auto row = rows_.find(name);
    if (row == rows_.end()) {
        return std::nullopt;
    }
    const Key follower = find_follower(name);
    const bool follows = follower != kNothing;
    if (!follows && !is_complete(row->second, absent)) {
        return std::nullopt;
    }
    const bool agrees = !follows && has_same_members(row->second);
    auto keys = connected_with(row->second);
    std::ranges::sort(keys, {}, [&](Key key) { return std::pair(entries_.at(key).place, key); });
    AnnouncedGroup group{.ranks = {}, .announcements = {}, .follows_mismatch = follows};
    AnnouncedGroup unmatched;
    for (const Key key : keys) {
        const auto& entry = entries_.at(key);
        add(group, ranks_[entry.place], entry.announcement);
        if (!agrees && key != follower) {
            add(unmatched, ranks_[entry.place], entry.announcement);
        }
        erase(key);
    }
    expect_counterparts(unmatched);
    return group;
}

std::vector<std::string> ReadinessTable::names() const {
    std::vector<std::string> names;
    names.reserve(rows_.size());
    for (const auto& [name, row] : rows_) {
        names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

std::vector<Waiting> ReadinessTable::waiting(std::span<const int> absent) const {
    std::vector<Waiting> list;
    for (auto& name : names()) {
        const auto& row = rows_.at(name);
        Waiting waiting;
        waiting.name = std::move(name);
        waiting.since = Waiting::TimePoint::max();
        for (std::size_t place = 0; place < ranks_.size(); ++place) {
            if (row.keys[place] != kNothing) {
                waiting.waiting.push_back(ranks_[place]);
                waiting.since = std::min(waiting.since, entries_.at(row.keys[place]).since);
            } else if (std::ranges::find(absent, ranks_[place]) == absent.end()) {
                waiting.missing.push_back(ranks_[place]);
            }
        }
        list.push_back(std::move(waiting));
    }
    return list;
}

}  // namespace hvd::rt
