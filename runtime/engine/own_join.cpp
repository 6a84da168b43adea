// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/own_join.hpp"

#include "runtime/negotiation/messages.hpp"

#include <cstdint>
#include <cstring>

namespace hvd::rt {

void OwnJoin::announce() {
    is_announced_ = true;
    const Announcement announcement{
        .process_set = 0,
        .members = {{.name = join_->name->text, .signature = join_->signature}},
        .failure = {}};
    channel_.refuse_round();
    channel_.announce(encode(announcement));
}

void OwnJoin::complete(int last_rank) {
    Operation& join = end();
    const std::int32_t last = last_rank;
    join.owned = allocate_aligned(sizeof last);
    std::memcpy(join.owned.get(), &last, sizeof last);
    join.out = join.owned.get();
    tickets_.complete(join);
}

void OwnJoin::fail(const DescribeFailure& describe) {
    if (is_open()) {
        Operation& join = end();
        fail_group(tickets_, join, describe(join));
    }
}

Operation& OwnJoin::end() noexcept {
    is_announced_ = false;
    return *std::exchange(join_, nullptr);
}

}  // namespace hvd::rt
