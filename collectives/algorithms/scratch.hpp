// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace hvd::coll {

/// Memory for what lies between inputs and results. The largest block that was used is kept for the
/// next task, one for all communicators of a backend, so that idle ones hold none.
class ScratchPool {
public:
    class Block {
    public:
        Block() = default;
        Block(Block&& other) noexcept
            : pool_(std::exchange(other.pool_, nullptr)),
              memory_(std::move(other.memory_)),
              bytes_(std::exchange(other.bytes_, 0)) {}
        Block& operator=(Block&& other) noexcept {
            std::swap(pool_, other.pool_);
            std::swap(memory_, other.memory_);
            std::swap(bytes_, other.bytes_);
            return *this;
        }
        Block(const Block&) = delete;
        Block& operator=(const Block&) = delete;
        ~Block() {
            if (pool_ != nullptr && pool_->bytes_ < bytes_) {
                pool_->memory_ = std::move(memory_);
                pool_->bytes_ = bytes_;
            }
        }

        [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }

    private:
        friend class ScratchPool;
        // NOLINTNEXTLINE(modernize-avoid-c-arrays): not zeroed
        Block(ScratchPool& pool, std::unique_ptr<std::byte[]> memory, std::size_t bytes) noexcept
            : pool_(&pool), memory_(std::move(memory)), bytes_(bytes) {}

        ScratchPool* pool_ = nullptr;
        std::unique_ptr<std::byte[]> memory_;  // NOLINT(modernize-avoid-c-arrays): not zeroed
        std::size_t bytes_ = 0;
    };

    /// At least `bytes`, not initialised. The pool outlives the block.
    [[nodiscard]] Block take(std::size_t bytes) {
        if (bytes <= bytes_) {
            return {*this, std::move(memory_), std::exchange(bytes_, 0)};
        }
        // NOLINTNEXTLINE(modernize-avoid-c-arrays): not zeroed
        return {*this, std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    }

private:
    std::unique_ptr<std::byte[]> memory_;  // NOLINT(modernize-avoid-c-arrays): not zeroed
    std::size_t bytes_ = 0;
};

}  // namespace hvd::coll
