// SPDX-License-Identifier: Apache-2.0
//
// The ticket table when memory ends in the middle of a call. This program's operator new counts,
// and fails where a test says so.
#include "runtime/tensor/ticket_table.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <vector>

using hvd::rt::Request;
using hvd::rt::TicketTable;

namespace {

constexpr int kNever = -1;

// Of this thread alone: other threads of this program have all the memory they want.
thread_local int allocations_left = kNever;
thread_local std::int64_t blocks_alive = 0;

/// Requests whose names need memory of their own; two are a group.
std::vector<Request> three_requests() {
    std::vector<Request> requests(3);
    for (std::size_t index = 0; index < requests.size(); ++index) {
        requests[index].name =
            "a name that is too long to be kept inside, " + std::to_string(index);
        requests[index].group = index == 0 ? 0 : 1;
    }
    return requests;
}

/// Whether memory ended before the operations were there. If not, they are given back.
bool fails_after(TicketTable& table, int allocations) {
    auto requests = three_requests();
    allocations_left = allocations;
    try {
        const auto created = table.create(requests);
        allocations_left = kNever;
        REQUIRE(created);
        REQUIRE(table.discard(*created));
        return false;
    } catch (const std::bad_alloc&) {
        allocations_left = kNever;
        return true;
    }
}

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-no-malloc): what operator new is made of
void* operator new(std::size_t bytes) {
    if (allocations_left == 0) {
        throw std::bad_alloc();
    }
    allocations_left -= allocations_left == kNever ? 0 : 1;
    ++blocks_alive;
    if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) {
        return memory;
    }
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    blocks_alive -= memory == nullptr ? 0 : 1;
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
    operator delete(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc)

TEST_CASE("operations that could not all be made are given back, with their names") {
    TicketTable table;
    REQUIRE_FALSE(fails_after(table, kNever));
    const auto alive = blocks_alive;
    int failures = 0;
    for (int allocations = 0; fails_after(table, allocations); ++allocations) {
        for (int round = 0; round < 100; ++round) {  // more than a chunk has room for
            REQUIRE(fails_after(table, allocations));
        }
        CHECK(blocks_alive == alive);
        ++failures;
    }

    CHECK(failures > 3);
    CHECK(blocks_alive == alive);
    auto requests = three_requests();
    const auto created = table.create(requests);
    REQUIRE(created);
    CHECK(static_cast<std::uint32_t>(ticket_of(*created->front())) <= 3);
    REQUIRE(table.discard(*created));
}

TEST_CASE("memory that no machine has is not rounded to what one has") {
    constexpr auto kMost = std::numeric_limits<std::size_t>::max();
    for (const std::size_t bytes : {kMost, kMost - 62, kMost - 64, kMost / 2 + 1, kMost / 2}) {
        CAPTURE(bytes);
        CHECK_THROWS_AS(hvd::rt::allocate_aligned(bytes), std::bad_alloc);
    }
}
