// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/structs.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace)
using hvd::Errc;

namespace {

constexpr std::byte kGuard{0x5a};
constexpr std::byte kSet{0x11};

/// A caller's struct of `size` bytes that ends where its memory ends, so that AddressSanitizer sees
/// what reads or writes beyond it.
template <class Struct>
class Theirs {
public:
    explicit Theirs(std::size_t size, std::byte fill = kSet) : memory_(size, fill) {
        set_size(size);
    }

    void set_size(std::size_t size) { std::memcpy(memory_.data(), &size, sizeof size); }
    [[nodiscard]] Struct* get() { return reinterpret_cast<Struct*>(memory_.data()); }
    [[nodiscard]] std::byte& operator[](std::size_t index) { return memory_[index]; }
    [[nodiscard]] std::size_t size() const { return memory_.size(); }

private:
    std::vector<std::byte> memory_;
};

/// Where the last field ends: a compiler need not copy what pads the struct.
template <class Struct>
constexpr std::size_t kFieldsEnd = sizeof(Struct);
template <>
constexpr std::size_t kFieldsEnd<hvd_topology> = offsetof(hvd_topology, is_homogeneous) +
                                                 sizeof(hvd_topology::is_homogeneous);

template <class Struct>
std::vector<std::byte> bytes_of(const Struct& value) {
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    return {first, first + sizeof value};
}

template <class Struct>
Struct filled(std::byte with) {
    Struct value{};
    std::memset(&value, static_cast<int>(with), sizeof value);
    return value;
}

}  // namespace

TEMPLATE_TEST_CASE("a struct of every size since its first version is read, the rest is 0",
                   "",
                   hvd_process_set,
                   hvd_init_options,
                   hvd_topology,
                   hvd_tensor,
                   hvd_request,
                   hvd_counters,
                   hvd_metrics,
                   hvd_arrivals) {
    for (std::size_t size = Layout<TestType>::kFirst; size <= sizeof(TestType); ++size) {
        CAPTURE(size);
        Theirs<TestType> theirs(size);

        const auto ours = read(theirs.get());

        REQUIRE(ours);
        const auto bytes = bytes_of(*ours);
        const auto known = known_bytes<TestType>(size);
        REQUIRE(known <= size);
        for (std::size_t index = sizeof(std::size_t); index < kFieldsEnd<TestType>; ++index) {
            REQUIRE(bytes[index] == (index < known ? kSet : std::byte{0}));
        }
    }
}

TEMPLATE_TEST_CASE(
    "of a struct of every size since its first version only whole fields are written",
    "",
    hvd_process_set,
    hvd_init_options,
    hvd_topology,
    hvd_tensor,
    hvd_request,
    hvd_counters,
    hvd_metrics,
    hvd_arrivals) {
    const auto ours = filled<TestType>(kSet);
    for (std::size_t size = Layout<TestType>::kFirst; size <= sizeof(TestType); ++size) {
        CAPTURE(size);
        Theirs<TestType> theirs(size, kGuard);

        REQUIRE(write(ours, theirs.get()));

        std::size_t kept = 0;
        std::memcpy(&kept, theirs.get(), sizeof kept);
        CHECK(kept == size);
        const auto known = known_bytes<TestType>(size);
        for (std::size_t index = sizeof(std::size_t); index < size; ++index) {
            REQUIRE(theirs[index] == (index < known ? kSet : kGuard));
        }
    }
}

TEMPLATE_TEST_CASE("a larger struct is taken up to 4096 bytes if its unknown tail is 0",
                   "",
                   hvd_process_set,
                   hvd_init_options,
                   hvd_topology,
                   hvd_tensor,
                   hvd_request,
                   hvd_counters,
                   hvd_metrics,
                   hvd_arrivals) {
    const auto ours = filled<TestType>(kSet);
    for (const std::size_t size : {sizeof(TestType) + 1, sizeof(TestType) + 8, kLargestStruct}) {
        CAPTURE(size);
        Theirs<TestType> theirs(size, std::byte{0});

        CHECK(read(theirs.get()));
        CHECK(write(ours, theirs.get()));
        for (std::size_t index = sizeof(TestType); index < size; ++index) {
            REQUIRE(theirs[index] == std::byte{0});
        }

        theirs[size - 1] = std::byte{1};
        const auto refused = read(theirs.get());
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::unsupported);
        CHECK(!write(ours, theirs.get()));
    }
}

TEMPLATE_TEST_CASE("a size that no version has is refused without a look behind struct_size",
                   "",
                   hvd_process_set,
                   hvd_init_options,
                   hvd_topology,
                   hvd_tensor,
                   hvd_request,
                   hvd_counters,
                   hvd_metrics,
                   hvd_arrivals) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{8}, Layout<TestType>::kFirst - 1, kLargestStruct + 1,
          std::size_t{1} << 40, std::numeric_limits<std::size_t>::max()}) {
        CAPTURE(size);
        Theirs<TestType> theirs(sizeof(std::size_t));
        theirs.set_size(size);

        const auto refused = read(theirs.get());

        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::invalid_argument);
        CHECK(!write(TestType{}, theirs.get()));
    }
}

TEST_CASE("the first versions of the structs are those of 0.29") {
    CHECK(Layout<hvd_init_options>::kFirst == offsetof(hvd_init_options, mpi_comm));
    CHECK(Layout<hvd_tensor>::kFirst == offsetof(hvd_tensor, event));
    CHECK(Layout<hvd_request>::kFirst == offsetof(hvd_request, splits));
    CHECK(Layout<hvd_topology>::kFirst == sizeof(hvd_topology));
    CHECK(Layout<hvd_counters>::kFirst == sizeof(hvd_counters));
}

TEST_CASE("a field that a caller has in part is one that it does not have") {
    Theirs<hvd_request> theirs(offsetof(hvd_request, split_count) + 4);

    const auto ours = read(theirs.get());

    REQUIRE(ours);
    CHECK(ours->splits != nullptr);
    CHECK(ours->split_count == 0);
    CHECK(ours->average_over == 0);
}
