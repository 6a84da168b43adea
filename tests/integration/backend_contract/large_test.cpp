// SPDX-License-Identifier: Apache-2.0
//
// The contract at more than 2^31 elements: each operation at two ranks on shared memory and over
// TCP.
#include "collectives/base/deadline.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>

namespace hvd::test {
namespace {

using coll::DataType;
using coll::Op;
using coll::Segment;
using coll::Task;

constexpr std::size_t kMany = (std::size_t{1} << 31) + 4097;
constexpr std::size_t kNeededKb = 8'000'000;
constexpr std::chrono::seconds kLargeLimit{100};

/// Numbers that come again after `kPeriod`, of which no power of two is a multiple, so that what
/// has gone astray shows.
template <class Element>
class Pattern {
public:
    /// `value(n)` for n below kPeriod is the element at each index with that remainder.
    template <class Value>
    explicit Pattern(Value value) : block_(kPeriod * kPeriods) {
        for (std::size_t index = 0; index < block_.size(); ++index) {
            block_[index] = value(index % kPeriod);
        }
    }

    void write(std::span<Element> to) const {
        for (std::size_t at = 0; at < to.size(); at += block_.size()) {
            std::memcpy(&to[at], block_.data(), bytes_at(to.size(), at));
        }
    }

    [[nodiscard]] bool is_in(std::span<const Element> data) const {
        for (std::size_t at = 0; at < data.size(); at += block_.size()) {
            if (std::memcmp(&data[at], block_.data(), bytes_at(data.size(), at)) != 0) {
                return false;
            }
        }
        return true;
    }

private:
    static constexpr std::size_t kPeriod = 251;
    static constexpr std::size_t kPeriods = 4096;

    [[nodiscard]] std::size_t bytes_at(std::size_t size, std::size_t at) const {
        return std::min(block_.size(), size - at) * sizeof(Element);
    }

    std::vector<Element> block_;
};

std::uint8_t byte_of(int rank, std::size_t index) {
    return static_cast<std::uint8_t>((index + static_cast<std::size_t>(rank) * 100) % 251);
}

Pattern<std::uint8_t> bytes_of(int rank) {
    return Pattern<std::uint8_t>([=](std::size_t index) { return byte_of(rank, index); });
}

Pattern<std::uint8_t> largest_bytes() {
    return Pattern<std::uint8_t>(
        [](std::size_t index) { return std::max(byte_of(0, index), byte_of(1, index)); });
}

/// Memory that nobody has written to yet.
template <class Element>
class Buffer {
public:
    explicit Buffer(std::size_t size)
        : memory_(std::make_unique_for_overwrite<Element[]>(size)), size_(size) {}

    [[nodiscard]] std::span<Element> data() { return {memory_.get(), size_}; }
    [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(memory_.get()); }

private:
    std::unique_ptr<Element[]> memory_;  // NOLINT(modernize-avoid-c-arrays)
    std::size_t size_;
};

void run_long_task(ContractRank& self, const Task& task) {
    const auto work = start_task(self, task);
    const auto deadline = Deadline::in(kLargeLimit);
    while (!is_done(*work)) {
        expect(!deadline.has_passed(), "the task did not end in time");
        std::this_thread::yield();
    }
}

void allreduce(ContractRank& self) {
    Buffer<std::uint8_t> data(kMany);
    bytes_of(self.rank).write(data.data());
    run_long_task(self, {.op = Op::allreduce,
                         .reduce = coll::ReduceOp::max,
                         .type = DataType::u8,
                         .segments = {{.in = data.bytes(), .out = data.bytes(), .count = kMany}}});
    expect(largest_bytes().is_in(data.data()), "allreduce gave other bytes");
}

void broadcast(ContractRank& self) {
    Buffer<std::uint8_t> data(kMany);
    bytes_of(self.rank).write(data.data());
    run_long_task(self, {.op = Op::broadcast,
                         .type = DataType::u8,
                         .root = 1,
                         .segments = {{.in = data.bytes(), .out = data.bytes(), .count = kMany}}});
    expect(bytes_of(1).is_in(data.data()), "broadcast gave other bytes");
}

void allgather(ContractRank& self) {
    constexpr std::size_t kFew = 3;
    const std::vector<std::size_t> counts{kFew, kMany};
    Buffer<std::uint8_t> own(counts[static_cast<std::size_t>(self.rank)]);
    Buffer<std::uint8_t> all(kFew + kMany);
    bytes_of(self.rank).write(own.data());
    run_long_task(self, {.op = Op::allgather,
                         .type = DataType::u8,
                         .segments = {{.in = own.bytes(),
                                       .out = all.bytes(),
                                       .count = own.data().size(),
                                       .counts = counts}}});
    expect(bytes_of(0).is_in(all.data().first(kFew)) && bytes_of(1).is_in(all.data().subspan(kFew)),
           "allgather gave other bytes");
}

void alltoall(ContractRank& self) {
    constexpr std::size_t kFew = 3;
    const bool sends_many = self.rank == 0;
    const std::vector<std::size_t> sent{kFew, sends_many ? kMany : kFew};
    const std::vector<std::size_t> received{sends_many ? kFew : kMany, kFew};
    Buffer<std::uint8_t> in(sent[0] + sent[1]);
    Buffer<std::uint8_t> out(received[0] + received[1]);
    const auto part = [](Buffer<std::uint8_t>& buffer, const std::vector<std::size_t>& counts,
                         int place) {
        return place == 0 ? buffer.data().first(counts[0]) : buffer.data().subspan(counts[0]);
    };
    for (int place = 0; place < 2; ++place) {
        bytes_of(2 * self.rank + place).write(part(in, sent, place));
    }
    run_long_task(self, {.op = Op::alltoall,
                         .type = DataType::u8,
                         .segments = {{.in = in.bytes(),
                                       .out = out.bytes(),
                                       .count = in.data().size(),
                                       .counts = received,
                                       .send_counts = sent}}});
    for (int place = 0; place < 2; ++place) {
        expect(bytes_of(2 * place + self.rank).is_in(part(out, received, place)),
               "alltoall gave other bytes");
    }
}

void reducescatter(ContractRank& self) {
    constexpr std::size_t kFew = 251 * 2;  // so that what follows begins with the pattern
    const std::vector<std::size_t> counts{kFew, kMany};
    Buffer<std::uint8_t> in(kFew + kMany);
    Buffer<std::uint8_t> out(counts[static_cast<std::size_t>(self.rank)]);
    bytes_of(self.rank).write(in.data());
    run_long_task(
        self,
        {.op = Op::reducescatter,
         .reduce = coll::ReduceOp::max,
         .type = DataType::u8,
         .segments = {
             {.in = in.bytes(), .out = out.bytes(), .count = in.data().size(), .counts = counts}}});
    expect(largest_bytes().is_in(out.data()), "reducescatter gave other bytes");
}

/// In kB; 0: not known.
std::size_t available_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string name, unit; file >> name;) {
        std::size_t size = 0;
        file >> size;
        if (name == "MemAvailable:") {
            return size;
        }
        std::getline(file, unit);
    }
    return 0;
}

template <ContractCase kRun>
void at_two_ranks(ContractRank& self) {
    if (self.size == 2) {
        kRun(self);
    }
}

template <ContractCase kRun>
void run_where_memory_is() {
    if (const auto available = available_memory(); available < kNeededKb) {
        test::skip("takes 8 GB of memory, and " + std::to_string(available / 1'000'000) +
                   " GB are available");
        return;
    }
    run_on_processes(&at_two_ranks<kRun>);
}

}  // namespace

TEST_CASE("backend contract, large: allreduce of more than 2^31 bytes") {
    run_where_memory_is<&allreduce>();
}

TEST_CASE("backend contract, large: broadcast of more than 2^31 bytes") {
    run_where_memory_is<&broadcast>();
}

TEST_CASE("backend contract, large: allgather of more than 2^31 bytes of one rank") {
    run_where_memory_is<&allgather>();
}

TEST_CASE("backend contract, large: alltoall of more than 2^31 bytes to one rank") {
    run_where_memory_is<&alltoall>();
}

TEST_CASE("backend contract, large: reducescatter of more than 2^31 bytes to one rank") {
    run_where_memory_is<&reducescatter>();
}

}  // namespace hvd::test
