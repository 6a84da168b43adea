// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/transport/shm/local_group.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hvd::coll {

inline constexpr auto kLimit = std::chrono::seconds(10);

inline void expect(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

inline LocalGroupOptions options_of(const std::string& socket, int rank, int size) {
    return {.rank = rank,
            .size = size,
            .name = socket,
            .key = std::vector<std::byte>(32, std::byte{7}),
            .segments = {100, 5000}};
}

inline std::unique_ptr<LocalGroup> form(const LocalGroupOptions& where, Deadline deadline) {
    auto group = LocalGroup::form(where, deadline);
    if (!group) {
        throw std::runtime_error(group.error().message);
    }
    return std::move(group).value();
}

inline std::unique_ptr<LocalGroup> form(const std::string& socket, int rank, int size) {
    return form(options_of(socket, rank, size), Deadline::in(kLimit));
}

inline std::atomic<std::uint64_t>& number(const LocalGroup& group, std::size_t index) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(group.segment(1).data())[index];
}

/// All ranks reach it before any passes.
inline void wait_for_all(const LocalGroup& group, std::size_t counter) {
    number(group, counter).fetch_add(1);
    const auto deadline = Deadline::in(kLimit);
    while (number(group, counter).load() < static_cast<std::uint64_t>(group.size())) {
        expect(!deadline.has_passed(), "the others did not come");
        std::this_thread::yield();
    }
}

inline std::string error_of(const LocalGroupOptions& where, Deadline deadline, Errc code) {
    const auto group = LocalGroup::form(where, deadline);
    expect(!group.has_value(), "the group was formed");
    expect(group.error().code == code,
           "code " + std::string(to_string(group.error().code)) + ": " + group.error().message);
    return group.error().message;
}

inline void expect_contains(const std::string& text, const std::string& part) {
    expect(text.find(part) != std::string::npos, "\"" + text + "\" does not say \"" + part + "\"");
}

}  // namespace hvd::coll
