// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/gpu/control.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hvd::test::gpu {

/// The past of an operation: for each stream, the number of its last operation.
using Clock = std::map<std::uint64_t, std::uint64_t>;

/// The later of both, for each stream.
void merge(Clock& into, const Clock& other);

/// An operation's place: number `number` of `stream`, after all of `before`.
struct Moment {
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
    Clock before;
};

/// Allocations, and who accessed what. Two accesses of one byte, of which one writes, must be
/// ordered by a stream, an event or the host's waiting; they are reported whatever order they came
/// in.
///
/// Thread: the lock of its owner.
class Memory {
public:
    enum class Kind { device, pinned };
    using Report = std::function<void(const std::string&)>;

    explicit Memory(Report report) : report_(std::move(report)) {}

    [[nodiscard]] void* allocate(std::size_t bytes, Kind kind, int device);

    /// False where it is no allocation's address. What is freed is not given out again.
    [[nodiscard]] bool free(void* address, Kind kind);

    void access(const Access& access, const Moment& moment, bool may_be_pageable);

    struct Block {
        std::unique_ptr<std::byte[]> storage;  // NOLINT(modernize-avoid-c-arrays): not filled
        std::byte* address = nullptr;
        std::size_t bytes = 0;
        Kind kind = Kind::device;
        int device = 0;
        bool is_freed = false;
        struct Use {
            std::size_t begin;
            std::size_t end;
            bool is_write;
            std::uint64_t stream;
            std::uint64_t number;
        };
        std::vector<Use> uses;
    };
    /// nullptr where the address is in no allocation.
    [[nodiscard]] const Block* find(const void* address) const;

    [[nodiscard]] std::vector<std::string> leaks() const;

    /// Of all devices, what is allocated and not freed.
    [[nodiscard]] std::size_t device_bytes() const;

private:
    Report report_;
    std::map<std::uintptr_t, Block> blocks_;  // by address
};

}  // namespace hvd::test::gpu
