// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/memory.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <sys/mman.h>

namespace hvd::test::gpu {
namespace {

constexpr std::size_t kAlignment = 256;  // the driver's
constexpr int kFresh = 0xcd;             // what nobody has written
constexpr int kFreed = 0xdd;
constexpr std::size_t kMostFilled = std::size_t{1} << 20U;  // of a block, from its begin

/// A block that is freed keeps its addresses, and its pages as far as they were filled.
void give_pages_back(const Memory::Block& block) {
    constexpr std::size_t kPage = 4096;
    if (block.bytes <= kMostFilled + 2 * kPage) {
        return;
    }
    auto* begin = block.address + kMostFilled;
    begin += kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage;
    auto* const end = block.address + block.bytes;
    const auto pages = static_cast<std::size_t>(end - begin) / kPage;
    (void)::madvise(begin, pages * kPage, MADV_DONTNEED);
}

std::string place(const Memory::Block& block, std::size_t begin, std::size_t end) {
    std::ostringstream text;
    text << "bytes " << begin << " to " << end << " of an allocation of " << block.bytes;
    return text.str();
}

}  // namespace

void merge(Clock& into, const Clock& other) {
    for (const auto& [stream, number] : other) {
        auto& mine = into[stream];
        mine = std::max(mine, number);
    }
}

void* Memory::allocate(std::size_t bytes, Kind kind, int device) {
    Block block;
    // NOLINTNEXTLINE(modernize-avoid-c-arrays): of a size that is known now
    block.storage = std::make_unique_for_overwrite<std::byte[]>(bytes + kAlignment);
    const auto start = reinterpret_cast<std::uintptr_t>(block.storage.get());
    block.address = block.storage.get() + (kAlignment - start % kAlignment);
    block.bytes = bytes;
    block.kind = kind;
    block.device = device;
    std::memset(block.address, kFresh, std::min(bytes, kMostFilled));
    void* const address = block.address;
    blocks_.emplace(reinterpret_cast<std::uintptr_t>(address), std::move(block));
    return address;
}

bool Memory::free(void* address, Kind kind) {
    const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
    if (found == blocks_.end() || found->second.is_freed || found->second.kind != kind) {
        return false;
    }
    found->second.is_freed = true;
    found->second.uses.clear();
    std::memset(address, kFreed, std::min(found->second.bytes, kMostFilled));
    give_pages_back(found->second);
    return true;
}

const Memory::Block* Memory::find(const void* address) const {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const auto next = blocks_.upper_bound(wanted);
    if (next == blocks_.begin()) {
        return nullptr;
    }
    const auto& block = std::prev(next)->second;
    return wanted < reinterpret_cast<std::uintptr_t>(block.address) + block.bytes ? &block
                                                                                  : nullptr;
}

void Memory::access(const Access& access, const Moment& moment, bool may_be_pageable) {
    if (access.bytes == 0) {
        return;
    }
    const auto* const found = find(access.address);
    if (found == nullptr) {
        if (!may_be_pageable) {
            report_("a kernel accesses memory that is neither a device's nor pinned");
        }
        return;
    }
    auto* const block = &blocks_.at(reinterpret_cast<std::uintptr_t>(found->address));
    const auto begin =
        static_cast<std::size_t>(static_cast<const std::byte*>(access.address) - block->address);
    const auto end = begin + access.bytes;
    if (block->is_freed) {
        report_("use after free: " + place(*block, begin, end));
        return;
    }
    if (end > block->bytes) {
        report_("out of bounds: " + place(*block, begin, end));
        return;
    }
    const auto is_before = [&](const Block::Use& use) {
        const auto known = moment.before.find(use.stream);
        return use.stream == moment.stream ||
               (known != moment.before.end() && known->second >= use.number);
    };
    for (const auto& use : block->uses) {
        if (use.begin < end && begin < use.end && (use.is_write || access.is_write) &&
            !is_before(use)) {
            report_("race: no event orders a " + std::string(use.is_write ? "write" : "read") +
                    " of one stream before a " + (access.is_write ? "write" : "read") +
                    " of another: " +
                    place(*block, std::max(begin, use.begin), std::min(end, use.end)));
            break;
        }
    }
    // A use that this write covers and follows can race only with accesses that race with the
    // write.
    if (access.is_write) {
        std::erase_if(block->uses, [&](const Block::Use& use) {
            return use.begin >= begin && use.end <= end && is_before(use);
        });
    }
    block->uses.push_back({begin, end, access.is_write, moment.stream, moment.number});
}

std::vector<std::string> Memory::leaks() const {
    std::vector<std::string> leaks;
    for (const auto& [address, block] : blocks_) {
        if (!block.is_freed) {
            leaks.push_back(std::to_string(block.bytes) + " bytes of " +
                            (block.kind == Kind::device ? "device" : "pinned") + " memory");
        }
    }
    return leaks;
}

std::size_t Memory::device_bytes() const {
    std::size_t bytes = 0;
    for (const auto& [address, block] : blocks_) {
        bytes += block.kind == Kind::device && !block.is_freed ? block.bytes : 0;
    }
    return bytes;
}

}  // namespace hvd::test::gpu
