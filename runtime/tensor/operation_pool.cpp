// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/operation_pool.hpp"

#include <string>

namespace hvd::rt {

OperationPool::OperationPool()
    : chunks_(std::make_unique<std::array<std::atomic<Chunk*>, kMaxChunks>>()) {}

OperationPool::~OperationPool() {
    for (std::size_t index = 0; index < chunk_count_; ++index) {
        const std::unique_ptr<Chunk> owner((*chunks_)[index].load(std::memory_order_relaxed));
    }
}

Operation& OperationPool::take() {
    if (free_.empty()) {
        if (chunk_count_ == kMaxChunks) {
            throw Exception(
                {Errc::unavailable, "more than " + std::to_string(kMaxChunks * kChunk) +
                                        " operations are not released: hvd_release is missing"});
        }
        auto chunk = std::make_unique<Chunk>();
        free_.reserve((chunk_count_ + 1) * kChunk);
        for (std::size_t place = kChunk; place-- > 0;) {
            (*chunk)[place].index = static_cast<std::uint32_t>(chunk_count_ * kChunk + place);
            free_.push_back(&(*chunk)[place]);
        }
        (*chunks_)[chunk_count_++].store(chunk.release(), std::memory_order_release);
    }
    Operation& operation = *free_.back();
    free_.pop_back();
    operation.name = nullptr;
    operation.group = nullptr;
    return operation;
}

void OperationPool::put_back(Operation& operation) noexcept {
    // Generation first: from here on the old ticket is unknown. 0 is left out, so that no ticket is
    // 0 and none looks like a bare index.
    const auto generation = operation.generation.load(std::memory_order_relaxed) + 1;
    operation.generation.store(generation == 0 ? 1 : generation, std::memory_order_release);
    operation.state.store(0, std::memory_order_relaxed);
    operation.is_neutral = false;
    free_.push_back(&operation);
}

Result<Operation*> OperationPool::find(Ticket ticket) const {
    const auto place = static_cast<std::uint32_t>(ticket);
    const auto generation = static_cast<std::uint32_t>(ticket >> 32);
    if (place != 0 && (place - 1) / kChunk < kMaxChunks) {
        Chunk* chunk = (*chunks_)[(place - 1) / kChunk].load(std::memory_order_acquire);
        if (chunk != nullptr) {
            Operation& operation = (*chunk)[(place - 1) % kChunk];
            if (operation.generation.load(std::memory_order_acquire) == generation) {
                return &operation;
            }
        }
    }
    return Error{Errc::invalid_argument,
                 "ticket " + std::to_string(ticket) + " is unknown, or was released"};
}

}  // namespace hvd::rt
