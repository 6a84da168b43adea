// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace hvd::rt {

/// Numbers of elements, outermost dimension first. Those of usual tensors lie in the object itself:
/// of thousands of small tensors in one call, memory for each shape would take as long as all else.
class Shape {
public:
    using value_type = std::int64_t;

    Shape() noexcept = default;
    Shape(std::initializer_list<std::int64_t> extents)
        : Shape(std::span(extents.begin(), extents.size())) {}
    explicit Shape(std::span<const std::int64_t> extents) { assign(extents); }
    Shape(const Shape& other) { assign(other); }
    Shape(Shape&& other) noexcept { take(other); }
    Shape& operator=(const Shape& other) {
        if (this != &other) {
            assign(other);
        }
        return *this;
    }
    Shape& operator=(Shape&& other) noexcept {
        if (this != &other) {
            take(other);
        }
        return *this;
    }
    ~Shape() = default;

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::int64_t* data() noexcept { return far_ ? far_.get() : near_.data(); }
    [[nodiscard]] const std::int64_t* data() const noexcept {
        return far_ ? far_.get() : near_.data();
    }
    [[nodiscard]] std::int64_t* begin() noexcept { return data(); }
    [[nodiscard]] std::int64_t* end() noexcept { return data() + size_; }
    [[nodiscard]] const std::int64_t* begin() const noexcept { return data(); }
    [[nodiscard]] const std::int64_t* end() const noexcept { return data() + size_; }
    [[nodiscard]] std::int64_t& front() noexcept { return *data(); }
    [[nodiscard]] std::int64_t front() const noexcept { return *data(); }
    [[nodiscard]] std::int64_t& operator[](std::size_t index) noexcept { return data()[index]; }
    [[nodiscard]] std::int64_t operator[](std::size_t index) const noexcept {
        return data()[index];
    }

    void assign(std::span<const std::int64_t> extents) {
        if (extents.size() > kNear) {
            // NOLINTNEXTLINE(modernize-avoid-c-arrays)
            auto memory = std::make_unique<std::int64_t[]>(extents.size());
            std::ranges::copy(extents, memory.get());
            far_ = std::move(memory);
        } else {
            far_.reset();
            std::ranges::copy(extents, near_.begin());
        }
        size_ = extents.size();
    }
    void clear() noexcept { size_ = 0; }

    friend bool operator==(const Shape& one, const Shape& other) noexcept {
        if (one.size_ != other.size_) {
            return false;
        }
        const auto* const mine = one.data();
        const auto* const theirs = other.data();
        for (std::size_t index = 0; index < one.size_; ++index) {  // few: a call would take longer
            if (mine[index] != theirs[index]) {
                return false;
            }
        }
        return true;
    }

private:
    static constexpr std::size_t kNear = 5;

    void take(Shape& other) noexcept {
        far_ = std::move(other.far_);
        near_ = other.near_;
        size_ = std::exchange(other.size_, 0);
    }

    std::size_t size_ = 0;
    // Where there are more dimensions than in `near_`.
    std::unique_ptr<std::int64_t[]> far_;  // NOLINT(modernize-avoid-c-arrays)
    std::array<std::int64_t, kNear> near_{};
};

}  // namespace hvd::rt
