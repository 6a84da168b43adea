// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/connecting.hpp"

#include <algorithm>

namespace hvd::rt {

Result<coll::Work::Progress> Connecting::poll() {
    try {
        return advance();
    } catch (const Exception& exception) {  // as of every Work: it may be a set's failure alone
        return exception.error();
    }
}

Result<coll::Work::Progress> Connecting::advance() {
    if (exchange_ == nullptr) {
        const auto own = communicator_.connection_info();
        if (!own) {
            return Progress::pending;
        }
        if (own->empty()) {
            return Progress::done;
        }
        HVD_TRY_STATUS(begin(*own));
    }
    HVD_TRY(const auto progress, exchange_->poll());
    if (progress == Progress::done) {
        communicator_.connect(std::span(infos_).first(bytes_));
    }
    return progress;
}

Status Connecting::begin(std::span<const std::byte> own) {
    bytes_ = members_ * own.size();
    infos_.resize(bytes_ + own.size());
    auto* const mine = infos_.data() + bytes_;
    std::ranges::copy(own, mine);
    coll::Task task{.op = coll::Op::allgather, .type = coll::DataType::u8};
    task.segments.push_back({.in = mine,
                             .out = infos_.data(),
                             .count = own.size(),
                             .counts = std::vector<std::size_t>(members_, own.size())});
    HVD_TRY(exchange_, host_.start(task));
    return ok();
}

}  // namespace hvd::rt
